"""Accelerate, Lightning Fabric, apex and torch.distributed, as the PyTorch that they run in one process in float32."""
