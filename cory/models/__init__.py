"""Language models, their adapters and value heads, sampling, and the DeepSpeed engine around them.

`bundle` decides how agents share a model.
"""

import logging

# peft imports it, and it tells of an optional package that nothing here needs
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
