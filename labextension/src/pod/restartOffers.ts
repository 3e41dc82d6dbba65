// The buttons to restart a pod kernel are about one start of it: they go when it starts again.

import { ISignal } from '@lumino/signaling';

/** Given by the conductor: jupyter_tpu/on_host/agent/pod. */
export const OUT_OF_STEP = 'application/vnd.jupyter-tpu.out-of-step+json';

/** What is needed of JupyterLab's notebook panel. */
interface INotebook {
  sessionContext: { statusChanged: ISignal<unknown, string> };
  content: { widgets: readonly { model: { outputs?: IOutputs } }[] };
}

interface IOutputs {
  length: number;
  toJSON(): { data?: object }[];
  fromJSON(outputs: object[]): void;
}

const STARTS = ['starting', 'restarting', 'autorestarting'];

/** Removes them from the notebook's cells whenever its kernel starts. */
export function removeOnStart(notebook: INotebook): void {
  notebook.sessionContext.statusChanged.connect((_, status) => {
    if (STARTS.includes(status)) {
      for (const { model } of notebook.content.widgets) {
        const outputs = model.outputs?.toJSON() ?? [];
        const kept = outputs.filter(
          ({ data }) => !(OUT_OF_STEP in (data ?? {}))
        );
        if (kept.length < outputs.length) {
          model.outputs!.fromJSON(kept);
        }
      }
    }
  });
}
