// What each action does, with the questions before it. Loaded with the first one.

import { IPanelActions } from '../actions/panelActions';
import { freeChips, splitChips } from '../chips/chipDialogs';
import { download, upload } from '../files/transfers';
import { askApp, openTunnel } from '../forwarding/portDialog';
import { changeGuard } from '../guard/guardDialog';
import { askRun } from '../jobs/commandDialogs';
import { showMemory, trace } from '../jobs/profileDialogs';
import { exampleTitles } from '../kernels/examples';
import { addSlicesKernel } from '../kernels/sliceDialogs';
import { trans } from '../language/translation';
import { replaceTPU, reportFault } from '../lifecycle/repairDialogs';
import { start } from '../lifecycle/startDialogs';
import { targetOn } from '../model/appTarget';
import {
  Action,
  connectRequest,
  startableEnvironments
} from '../model/availableActions';
import { openRay } from '../ray/rayDialogs';
import { ITPU } from '../rest/api';
import { FOLDED, WANTED } from '../sessions/sessionList';
import { checkTPU } from '../setup/doctorDialogs';
import { ask } from '../ui/formDialog';

type Run = (tpu: ITPU, actions: IPanelActions) => Promise<unknown>;

export const RUNS: { [action in Action]: Run } = {
  connect: (tpu, { model }) => model.connect(tpu, connectRequest(tpu)),
  notebook: (tpu, { open }) => open.notebook(tpu),
  console: (tpu, { open }) => open.console(tpu),
  example: openExample,
  terminal: (tpu, { open }) => open.terminal(tpu, 0),
  run: runCommand,
  job: (tpu, { jobs }) => jobs.start(tpu),
  browse: (tpu, { open }) => open.files(tpu, 0),
  upload: (tpu, { model }) => upload(tpu, model),
  download: (tpu, { model }) => download(tpu, model),
  copy: (tpu, { copies }) => copies.copy(tpu),
  sync: (tpu, { copies }) => copies.sync(tpu),
  share: (tpu, { shares }) => shares.share(tpu),
  tensorboard: openTensorBoard,
  serve: startModelServer,
  ray: (tpu, { model, open }) => openRay(tpu, model, app => open.app(app)),
  app: openPort,
  tunnel: openTunnel,
  chips: (tpu, { model }) => freeChips(tpu, model),
  split: (tpu, { model }) => splitChips(tpu, model),
  slices: (tpu, { model }) => addSlicesKernel(tpu, model),
  profile: (tpu, actions) => trace(tpu, actions),
  memory: (tpu, { model }) => showMemory(tpu, model),
  check: (tpu, { model }) => checkTPU(tpu, model),
  environment: (tpu, actions) => actions.openConnectForm(tpu),
  sessions: showSessions,
  disconnect: (tpu, { kernels }) => kernels.destroy('disconnect', tpu),
  start: (tpu, actions) => start(actions, tpu),
  guard: (tpu, { model }) => changeGuard(tpu, model),
  stop: (tpu, { kernels }) => kernels.destroy('stop', tpu),
  report: (tpu, { model }) => reportFault(tpu, model),
  replace: (tpu, { model }) => replaceTPU(tpu, model),
  detach: (tpu, { kernels }) => kernels.destroy('detach', tpu),
  delete: (tpu, { kernels }) => kernels.destroy('delete', tpu)
};

/** Asks for a command, and shows its output in a tab. */
async function runCommand(
  tpu: ITPU,
  { model, open }: IPanelActions
): Promise<void> {
  const run = await askRun(tpu, model);
  if (run) {
    await open.run(run);
  }
}

/** Asks what to serve, and shows the server in its list. */
async function startModelServer(
  tpu: ITPU,
  { model, open }: IPanelActions
): Promise<void> {
  const { startServer } = await import('../serving/startDialog');
  if (await startServer(tpu, model)) {
    await open.tpu(tpu);
  }
}

/** Shows the part of its page where they are. */
async function showSessions(
  tpu: ITPU,
  { open, view }: IPanelActions
): Promise<void> {
  if (view.isOpen(FOLDED)) {
    view.toggle(FOLDED);
  }
  view.open(WANTED);
  await open.tpu(tpu);
}

async function openExample(tpu: ITPU, { open }: IPanelActions): Promise<void> {
  const [environment] = startableEnvironments(tpu);
  const examples = exampleTitles();
  const asked = await ask({
    title: trans.__('Open an Example on %1', tpu.name),
    accept: trans.__('Open'),
    initial: { example: examples[0][0] },
    fields: () => [
      {
        name: 'example',
        label: trans.__('The notebook is copied to your files.'),
        kind: 'select',
        choices: examples
      }
    ]
  });
  if (asked) {
    // After the dialog, which gives the focus back to where it was.
    await open.example(asked.example, environment);
  }
}

async function openPort(tpu: ITPU, { open }: IPanelActions): Promise<void> {
  const request = await askApp(tpu);
  if (request) {
    const { host, port } = request;
    await open.app(targetOn(tpu, trans.__('Port %1', port), { host, port }));
  }
}

async function openTensorBoard(
  tpu: ITPU,
  { open }: IPanelActions
): Promise<void> {
  const asked = await ask({
    title: trans.__('TensorBoard on %1', tpu.name),
    accept: trans.__('Open'),
    initial: { logdir: '~/runs' },
    fields: () => [
      {
        name: 'logdir',
        label: trans.__('Log folder on host 0, or gs://bucket/folder'),
        kind: 'path',
        place: { tpu, folder: true },
        required: true
      }
    ]
  });
  const logdir = asked?.logdir.trim();
  if (logdir) {
    await open.app(targetOn(tpu, trans.__('TensorBoard'), { logdir }));
  }
}
