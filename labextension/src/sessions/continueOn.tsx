// Continue a notebook on another TPU: its variables are saved where both reach them, a kernel is started
// there, and they are restored. Nothing ends before the user knows what can't be kept.

import React from 'react';

import { IPanelActions } from '../actions/panelActions';
import { runsOn } from '../kernels/notebookNotices';
import { facts } from '../language/text';
import { trans } from '../language/translation';
import { startableEnvironments } from '../model/availableActions';
import { costNow } from '../money/costLabels';
import { IOperation, ISession, ISessionOutcome, ITPU } from '../rest/api';
import { keyOf } from '../rest/tpuRef';
import { choose, confirm } from '../ui/confirm';
import { ask } from '../ui/formDialog';
import {
  findSession,
  KernelDocument,
  outcomeOf,
  restoreInNewKernel
} from './moves';
import { bucketHelp, COMPUTER, placeField, requirePlace } from './sessionForm';
import { originLabel, placeLabel, restoredText } from './sessionLabels';
import { MissingVariables } from './sessionOutcomes';

/** A kernel that can be started, and its TPU. */
interface ITarget {
  tpu: ITPU;
  /** The kernelspec. */
  kernel: string;
  label: string;
}

/** The kernels that can be started on TPUs, but that of the kernelspec *current*. */
export function targets(tpus: readonly ITPU[], current: string): ITarget[] {
  return tpus.flatMap(tpu =>
    startableEnvironments(tpu).flatMap(environment => {
      const { display_name, kernelspec, pod_kernelspec } = environment;
      const name = facts(display_name || tpu.name, tpu.type, costNow(tpu));
      const pod = pod_kernelspec && {
        tpu,
        kernel: pod_kernelspec,
        label: facts(environment.pod_display_name, tpu.type, costNow(tpu))
      };
      const one = { tpu, kernel: kernelspec, label: name };
      return [one, ...(pod ? [pod] : [])].filter(
        ({ kernel }) => kernel !== current
      );
    })
  );
}

/** The TPU that a document's kernel runs on. */
export function tpuOf(
  document: KernelDocument,
  tpus: readonly ITPU[]
): ITPU | undefined {
  const name = document.sessionContext.session?.kernel?.name;
  return name ? tpus.find(tpu => runsOn(name, tpu)) : undefined;
}

/** Asks where, and continues there; the line that the document shows then, or null. */
export async function continueOn(
  document: KernelDocument,
  actions: IPanelActions
): Promise<string | null> {
  const { model } = actions;
  const kernel = document.sessionContext.session?.kernel;
  const here = tpuOf(document, model.tpus);
  if (!kernel || !here) {
    return null;
  }
  const possible = targets(model.tpus, kernel.name);
  const title = trans.__('Continue %1 on…', document.title.label);
  if (possible.length === 0) {
    await offerTPU(title, actions);
    return null;
  }
  const targetOf = (name: string) => possible.find(one => one.kernel === name)!;
  // One TPU's kernels have the same disk; those of several hosts may not.
  const isSame = (to: ITPU) =>
    keyOf(to) === keyOf(here) && here.hosts.length === 1;
  let begun: IOperation | undefined;
  const asked = await ask({
    title,
    accept: trans.__('Save and Continue'),
    initial: {
      kernel: possible[0].kernel,
      place: here.sessions?.place || possible[0].tpu.sessions?.place || ''
    },
    fields: fields => {
      const { tpu: to } = targetOf(fields.kernel);
      return [
        {
          name: 'kernel',
          label: trans.__('Kernel'),
          kind: 'select',
          choices: possible.map(one => [one.kernel, one.label])
        },
        ...placeField(fields, !isSame(to)),
        <p>
          {trans.__(
            'The variables are saved there. Then you are shown what can’t be kept, and asked again. After that, a new kernel starts on %1, gets the variables, and the kernel on %2 is shut down.',
            to.name,
            here.name
          )}
        </p>,
        keyOf(to) !== keyOf(here) && !here.emulated && (
          <p>
            {trans.__(
              'You pay for %1 until you stop or delete it, also when no kernel runs there.',
              here.name
            )}
          </p>
        )
      ];
    },
    submit: async ({ kernel: name, place }) => {
      requirePlace({ place }, !isSame(targetOf(name).tpu));
      begun = await model.begin(() =>
        model.client.sessions.save(here, { kernels: [kernel.id], place })
      );
    }
  });
  if (!asked || !begun) {
    return null;
  }
  const saved = await outcomeOf(model, begun);
  const to = targetOf(asked.kernel);
  if (!saved || !(await agreedToLose(saved, to.tpu))) {
    return null;
  }
  return moveTo(document, actions, to, saved.session);
}

/** Continues in a kernel of *to*; null if that failed, which was said. */
async function moveTo(
  document: KernelDocument,
  { model }: IPanelActions,
  to: ITarget,
  session: string
): Promise<string | null> {
  const restored = await restoreInNewKernel(model, document, to, session);
  const known = restored && (await findSession(model, to.tpu, session));
  return restored && restoredText(restored, known || undefined);
}

/** Continues from a session whose TPU is gone, or does not run. */
export async function continueFrom(
  session: ISession,
  document: KernelDocument,
  actions: IPanelActions
): Promise<string | null> {
  const current = document.sessionContext.session?.kernel?.name ?? '';
  const possible = targets(actions.model.tpus, current);
  const title = trans.__('Continue %1 on…', document.title.label);
  if (possible.length === 0) {
    await offerTPU(title, actions);
    return null;
  }
  const asked = await ask({
    title,
    accept: trans.__('Continue'),
    initial: { kernel: possible[0].kernel },
    fields: () => [
      {
        name: 'kernel',
        label: trans.__('Kernel'),
        help: trans.__(
          'It gets the variables from %1, saved by %2.',
          placeLabel(session),
          originLabel(session)
        ),
        kind: 'select',
        choices: possible.map(one => [one.kernel, one.label])
      },
      session.place !== COMPUTER && <p>{bucketHelp()}</p>
    ]
  });
  const to = possible.find(one => one.kernel === asked?.kernel);
  return to ? moveTo(document, actions, to, session.id) : null;
}

/** Says that there is no other TPU, and opens the form for one. */
async function offerTPU(title: string, actions: IPanelActions): Promise<void> {
  const text = trans.__(
    'No other TPU has a kernel that can be started. Create and connect one first.'
  );
  if ((await choose(title, text, [trans.__('New TPU…')])) !== null) {
    actions.openPanel();
    await actions.openCreateForm();
  }
}

/** Whether the user continues without what could not be saved; true if all was. */
async function agreedToLose(
  saved: ISessionOutcome,
  { name }: ITPU
): Promise<boolean> {
  const { missing, missing_count: count, variables } = saved;
  if (count === 0) {
    return true;
  }
  return confirm(
    trans._n(
      'Continue on %2 without %1 variable?',
      'Continue on %2 without %1 variables?',
      count,
      name
    ),
    <>
      <p>
        {trans._n(
          '%1 variable is saved. What can’t be kept is lost with the kernel:',
          '%1 variables are saved. What can’t be kept is lost with the kernel:',
          variables
        )}
      </p>
      <MissingVariables missing={missing} missing_count={count} />
    </>,
    trans.__('Continue')
  );
}
