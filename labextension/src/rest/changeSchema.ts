/** The schema of the events that say what has changed (`server/events.py`). */
export const CHANGE_SCHEMA = 'https://events.jupyter-tpu.org/change/v1';
