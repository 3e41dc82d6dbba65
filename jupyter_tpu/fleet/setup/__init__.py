"""What has to be right in a project before TPUs work: networks, keys, logging; and the doctor."""
