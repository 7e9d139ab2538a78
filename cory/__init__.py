"""Fine-tune small teams of language models with multi-agent reinforcement learning."""
