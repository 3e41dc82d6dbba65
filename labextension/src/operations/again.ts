// What a user can do about an operation: cancel it, or try again what it failed to do.

import { IPanelActions } from '../actions/panelActions';
import { trans } from '../language/translation';
import { cancelQuestion } from '../model/operationLabels';
import { ICreateTPU, IOperation } from '../rest/api';
import { agreed } from '../ui/confirm';

/** Cancels an operation; asks first where that deletes a TPU. */
export async function cancel(
  { model }: IPanelActions,
  operation: IOperation
): Promise<void> {
  // The panel stops a hunt without a question.
  const question = operation.kind === 'create' && cancelQuestion(operation);
  if (await agreed(question, { cancel: trans.__('Continue') })) {
    await model.cancel(operation);
  }
}

/** Tries again what an operation failed to do. */
export async function retry(
  actions: IPanelActions,
  operation: IOperation
): Promise<void> {
  const { model, view } = actions;
  const tpu = model.tpuOf(operation);
  const hunt = model.hunts.get(operation.id);
  if (hunt) {
    await actions.openCreateForm(hunt.request.tpu, hunt.request);
  } else if (operation.kind === 'create' && !tpu) {
    await actions.openCreateForm(requestOf(actions, operation));
  } else if (tpu && operation.undeleted) {
    await actions.act('delete', tpu);
  } else if (tpu) {
    switch (operation.kind) {
      case 'create':
        await actions.act('connect', tpu);
        break;
      case 'compile':
      case 'hunt':
      case 'queue':
      case 'plan':
      case 'unqueue':
        break; // not about a TPU that is there
      case 'environment':
        if (actions.isPackageChange(operation)) {
          view.show('packages');
        } else {
          await actions.open.tpu(tpu); // where its environments are
        }
        break;
      case 'copy':
        await actions.copies.again(tpu, operation);
        break;
      case 'share':
        await actions.shares.again(tpu, operation);
        break;
      case 'restart':
      case 'restore':
      case 'save':
        await actions.act('sessions', tpu);
        break;
      case 'save-home':
        await model.send(tpu, client => client.homes.save(tpu));
        break;
      case 'restore-home':
        await model.send(tpu, client => client.homes.restore(tpu));
        break;
      case 'guard':
      case 'profile':
      case 'report':
      case 'serve':
        break; // the user can set it, trace a kernel, report a host or start a server again
      default:
        await actions.act(operation.kind, tpu);
    }
  }
  model.dismiss(operation.id);
}

/** Opens the form with what Google had no capacity for: for a hunt, or in another zone. */
export async function createElsewhere(
  actions: IPanelActions,
  operation: IOperation,
  zone?: string
): Promise<void> {
  const request = requestOf(actions, operation);
  await actions.openCreateForm({ ...request, ...(zone && { zone }) }, !zone);
  actions.model.dismiss(operation.id);
}

/** What an operation was to create, as far as this page knows. */
function requestOf(
  { model }: IPanelActions,
  operation: IOperation
): Partial<ICreateTPU> {
  const { tpu: name, zone } = operation;
  return model.createRequest(operation) ?? { name, zone };
}
