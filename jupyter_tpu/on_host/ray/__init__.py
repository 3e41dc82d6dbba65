"""Ray on the hosts of a TPU."""
