// What keeps a TPU from working, and what to do: at the top of the list, and on the TPU's page.

import React from 'react';

import { IPanelActions } from '../actions/panelActions';
import { ITPUProps, useActions } from '../actions/useActions';
import { EnvironmentAlert } from '../environments/environments';
import { clock, trans } from '../language/translation';
import { isGone } from '../model/availableActions';
import { isSame } from '../model/resources';
import { maintenanceText } from '../model/tpuLabels';
import { confirmKeep } from '../money/costDialogs';
import { IEnvironment, IOperation, ITPU } from '../rest/api';
import { failureText, problemText } from '../rest/failureText';
import { Alert, TextButton } from '../ui/elements';
import { Terms } from '../ui/listSection';
import { endingOf } from './ending';

/** Whether an operation is shown above all TPUs. */
export function isUrgent({ state }: IOperation): boolean {
  return state === 'running' || state === 'failed';
}

/** A TPU that does not run: who ended that, when, why, and what can be done now. */
export function WhyEnded({ tpu }: ITPUProps) {
  const { model } = useActions();
  const ending = endingOf(tpu, model.allOf(tpu));
  return (
    ending && (
      <section className="jp-tpu-Ending" aria-label={ending.title}>
        <h3>{ending.title}</h3>
        <Terms
          terms={[
            [trans.__('By'), ending.who],
            ending.when && [
              trans.__('When'),
              ending.seen
                ? trans.__('Seen at %1', clock(ending.when))
                : clock(ending.when),
              ending.when
            ],
            ending.why && [trans.__('Why'), ending.why],
            [trans.__('Now'), ending.now]
          ]}
        />
      </section>
    )
  );
}

/** Whether there is something that `Alerts` shows. */
export function hasAlerts(tpu: ITPU, { model }: IPanelActions): boolean {
  return !!(
    tpu.problem ||
    tpu.maintenance ||
    tpu.interruption ||
    model.failure(tpu) ||
    tpu.environments.some(one => one.problem)
  );
}

/** explained: whether `WhyEnded` stands above. */
export function Alerts({
  tpu,
  explained
}: ITPUProps & { explained?: boolean }) {
  const actions = useActions();
  const { model } = actions;
  const failure = model.failure(tpu);
  const refused = model
    .runningOn(tpu)
    .find(operation => operation.undeleted === 'retrying');
  const maintenance = maintenanceText(tpu);
  const isTheProblem = (one: IEnvironment) => isSame(one.problem, tpu.problem);
  // That it is gone; but not why it can't be deleted.
  const known =
    explained && isGone(tpu) && !refused && tpu.problem?.reason === 'CONFLICT';
  return (
    <>
      {/* While it goes on, the TPU's problem says so. */}
      {maintenance && !(tpu.maintenance?.ongoing && tpu.problem) && (
        <Alert kind="warning" {...maintenance} />
      )}
      {tpu.problem && !known && !tpu.environments.some(isTheProblem) && (
        <Alert kind="warning" {...problemText(tpu.problem)}>
          {refused && (
            <TextButton onClick={() => void stopTrying(actions, tpu, refused)}>
              {trans.__('Stop Trying…')}
            </TextButton>
          )}
        </Alert>
      )}
      {tpu.environments.map(environment => (
        <EnvironmentAlert
          key={environment.name}
          environment={environment}
          tpu={tpu}
        />
      ))}
      {failure && (
        <Alert {...failureText(failure)}>
          <TextButton onClick={() => model.dismissFailure(tpu)}>
            {trans.__('Dismiss')}
          </TextButton>
        </Alert>
      )}
    </>
  );
}

/** Ends the attempts to delete a TPU, if the user agrees that it stays. */
async function stopTrying(
  { model }: IPanelActions,
  tpu: ITPU,
  { id }: IOperation
): Promise<void> {
  if (await confirmKeep(tpu)) {
    await model.send(tpu, ({ operations }) =>
      operations.stopTrying(id, { keep_tpu: true })
    );
  }
}
