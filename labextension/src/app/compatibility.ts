// Says so where the application is not one that the extension is made for and tested with.

import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ITranslator } from '@jupyterlab/translation';

import { loadTranslation, trans } from '../language/translation';
import { notify } from '../ui/notify';

/** The oldest supported version of each application; newer ones of the same major version are, too. */
export const SUPPORTED: { [application: string]: [number, number] } = {
  JupyterLab: [4, 4],
  'Jupyter Notebook': [7, 4]
};

/** What to tell the user about an unsupported version; null if it is supported, or not known. */
export function compatibilityProblem({
  name,
  version
}: {
  name: string;
  version: string;
}): string | null {
  const supported = SUPPORTED[name];
  const match = /^(\d+)\.(\d+)/.exec(version);
  if (!supported || !match) {
    return null;
  }
  const [major, minor] = supported;
  if (Number(match[1]) === major && Number(match[2]) >= minor) {
    return null;
  }
  return trans.__(
    'This version of jupyter-tpu supports %1 %2.%3 and newer %2.x versions, but this is %1 %4. Some features may not work.',
    name,
    major,
    minor,
    version
  );
}

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:compatibility',
  description: 'Notifies when this version of JupyterLab is not supported.',
  autoStart: true,
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, translator: ITranslator | null) => {
    loadTranslation(translator);
    const problem = compatibilityProblem(app);
    if (problem) {
      notify.warning(problem);
    }
  }
};

export default plugin;
