"""What programs on a host do: profiles of kernels, and TensorBoard, which shows them."""
