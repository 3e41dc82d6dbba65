// What ends or is lost with a TPU, an environment or a kernel: what is asked before. The server says
// what that is.

import { jobState } from '../jobs/jobLabels';
import { IQuestion, joined } from '../language/text';
import { trans } from '../language/translation';
import { DestructiveAction } from '../model/availableActions';
import { IConsequences, IKernel, ITPU } from '../rest/api';
import { failureLine } from '../rest/failureText';
import { FleetRequests } from '../rest/requests';
import { kernelName, kernelStateLabel } from './kernelLabels';

/** What would end, and what is lost; *known*: whether the server has said so. */
export interface ILoss extends IConsequences {
  known: boolean;
}

/** Milliseconds that the server has to answer: it asks the hosts for at most 4 s. */
const LONGEST_WAIT_MILLISECONDS = 8000;

const NOTHING = {
  kernels: [],
  jobs: [],
  kernels_text: '',
  jobs_text: '',
  saves: false,
  sessions_text: '',
  lost_sessions: []
};

/** What the server says of an act; if it does not answer, that this is not known. Never rejects. */
export async function lossOf(
  client: FleetRequests,
  action: Exclude<DestructiveAction, 'kernel'> | 'report-fault',
  tpu: ITPU,
  environment?: string
): Promise<ILoss> {
  const act = action === 'environment' ? 'remove-environment' : action;
  try {
    const signal = AbortSignal.timeout(LONGEST_WAIT_MILLISECONDS);
    const query = { act, environment };
    return { ...(await client.consequences(tpu, query, signal)), known: true };
  } catch (error) {
    const unknown = trans.__(
      'What runs on %1, and what is lost, could not be found out. If you continue, kernels and jobs there may end, too.',
      tpu.name
    );
    return { ...NOTHING, lost: [unknown, failureLine(error)], known: false };
  }
}

/** What is lost with a kernel. */
export function kernelLoss(kernel: IKernel): ILoss {
  const lost = [trans.__('Its variables will be lost. The notebook is kept.')];
  return { ...NOTHING, kernels: [kernel], lost, known: true };
}

/** What a request says may end: what was shown, or all if that is not known. */
export function mayEnd({ jobs, kernels, known }: ILoss): {
  end_kernels: boolean;
  end_jobs: boolean;
} {
  return {
    end_kernels: !known || kernels.length > 0,
    end_jobs: !known || jobs.length > 0
  };
}

/** Kernels or jobs that end, or continue, and what that means. */
export interface IEnding {
  text: string;
  items: { name: string; state: string; title: string }[];
}

/** What happens to kernels and jobs, each with a list of them. */
export function endings(loss: ILoss | IConsequences): IEnding[] {
  const kernels = loss.kernels.map(kernel => ({
    name: kernelName(kernel),
    state: kernelStateLabel(kernel.state),
    title: kernel.notebook || kernel.id
  }));
  const jobs = loss.jobs.map(job => ({
    name: job.name,
    state: jobState(job),
    title: job.command.join(' ')
  }));
  return [
    { text: loss.kernels_text, items: kernels },
    { text: loss.jobs_text, items: jobs }
  ].filter(({ items }) => items.length > 0);
}

/** What is asked before something is lost; the text is all of *loss*, a line each. */
export function lossQuestion(
  action: DestructiveAction,
  { name }: ITPU,
  loss: ILoss,
  environment = ''
): IQuestion {
  const [title, accept] = {
    delete: [trans.__('Delete %1?', name), trans.__('Delete')],
    detach: [trans.__('Detach %1?', name), trans.__('Detach')],
    disconnect: [trans.__('Disconnect %1?', name), trans.__('Disconnect')],
    environment: [
      trans.__('Remove the environment %1?', environment),
      trans.__('Remove')
    ],
    kernel: [
      trans.__('Shut down a kernel on %1?', name),
      trans.__('Shut Down')
    ],
    stop: [trans.__('Stop %1?', name), trans.__('Stop')]
  }[action];
  const lines = endings(loss).flatMap(({ items, text }) => [
    text,
    ...items.map(one => `• ${one.name}: ${one.state}`)
  ]);
  const text = joined('\n', ...lines, loss.sessions_text, ...loss.lost);
  return { title, accept, text };
}
