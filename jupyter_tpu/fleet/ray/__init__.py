"""Ray on the hosts of a TPU: its cluster, as a job."""
