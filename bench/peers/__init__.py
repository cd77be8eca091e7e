"""eqsat beside torch, inductor, onnxruntime, OpenVINO and XLA, on kernels and on whole models."""
