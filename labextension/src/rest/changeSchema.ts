/** The schema of the events that say what has changed (`server/events.py`). */
export const CHANGE_SCHEMA = 'https://events.jupyter-tpu.org/change/v1';

/** The schema of the events that say why a kernel was not started, for clients that show no answer. */
export const KERNEL_REFUSED_SCHEMA =
  'https://events.jupyter-tpu.org/kernel-refused/v1';
