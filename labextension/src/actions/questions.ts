// What the panel and the pages of TPUs do, with the questions before it. Loaded with them.

import { Dialog, showDialog } from '@jupyterlab/apputils';

import type { Actions } from '../app/actions';
import { trans } from '../language/translation';
import { approveCost } from '../lifecycle/approval';
import type { ConnectForm } from '../lifecycle/connectForm';
import type { CreateForm } from '../lifecycle/createForm';
import { confirmKeep, confirmStart } from '../money/costDialogs';
import {
  IApp,
  ICreateTPU,
  IEnvironment,
  IFoundPython,
  IOperation,
  IQueuedResource,
  ITPU,
  ITunnel
} from '../rest/api';
import { keyOf } from '../rest/tpuRef';
import { confirm } from '../ui/confirm';
import { confirmed, named } from '../ui/named';

/** Sends a form; the list then shows what it led to. */
export async function submit(
  actions: Actions,
  form: CreateForm | ConnectForm
): Promise<void> {
  const { forms, view } = actions;
  const { create } = forms;
  const agreement = form === create ? await approveCost(create) : {};
  const { fields } = create;
  if (agreement && (await form.submit(agreement))) {
    if (form === create) {
      view.awaited = keyOf(fields);
    }
    view.show('list');
  }
}

/** Starts a TPU; asks first where it is billed from then on. */
export async function start({ model }: Actions, tpu: ITPU): Promise<void> {
  const price = tpu.cost.usd_per_hour;
  if (tpu.emulated || (await confirmStart(tpu))) {
    const title = trans.__('Start %1?', tpu.name);
    await named(tpu, title, trans.__('Start'), name =>
      model.send(tpu, client =>
        client.start(tpu, {
          ...(price !== 0 && { confirm_price: true, max_price: price }),
          ...confirmed(name)
        })
      )
    );
  }
}

/** Keeps a TPU for an hour that would stop itself. */
export async function keep({ model }: Actions, tpu: ITPU): Promise<void> {
  const title = trans.__('Keep %1 for an hour?', tpu.name);
  await named(tpu, title, trans.__('Keep'), name =>
    model.send(tpu, async client => {
      await client.guards.keep(tpu, confirmed(name));
    })
  );
}

/** Lets coding agents run code on a TPU, or no longer. */
export async function allowAgents(
  { model }: Actions,
  tpu: ITPU,
  allowed: boolean
): Promise<void> {
  const title = allowed
    ? trans.__('Let coding agents run code on %1?', tpu.name)
    : trans.__('Deny coding agents access to %1?', tpu.name);
  const accept = allowed ? trans.__('Allow') : trans.__('Deny');
  await named(tpu, title, accept, confirm_name =>
    model.send(tpu, async client => {
      await client.budgets.allow(tpu, { allowed, confirm_name });
    })
  );
}

/** Makes a TPU the user's. */
export async function adopt(
  { forms, model }: Actions,
  tpu: ITPU
): Promise<void> {
  const title = trans.__('Adopt %1?', tpu.name);
  await named(tpu, title, trans.__('Adopt'), confirm_name =>
    model.send(tpu, async client => {
      await client.usage.adopt(tpu, { confirm_name });
      await forms.usage.load();
    })
  );
}

/** Asks on which hosts of a pod a new notebook runs: the kernel of all hosts, or of host 0. */
export async function askNotebookKernel(
  environment: IEnvironment
): Promise<string | undefined> {
  const all = Dialog.okButton({ label: trans.__('All Hosts') });
  const one = Dialog.okButton({ label: trans.__('Host 0 Only') });
  const result = await showDialog({
    title: trans.__('New Notebook on %1', environment.tpu),
    body: trans.__(
      'A notebook on all hosts runs each cell on every host, with all chips. A notebook on host 0 uses the chips of that host only.'
    ),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      { ...one, className: 'jp-mod-reject' },
      all
    ],
    defaultButton: 2
  });
  if (!result.button.accept) {
    return undefined;
  }
  return result.button.label === all.label
    ? environment.pod_kernelspec
    : environment.kernelspec;
}

/** Makes a kernel of a Python on the hosts; asks before ipykernel is installed there. */
export async function usePython(
  { model }: Actions,
  tpu: ITPU,
  { ipykernel, name, path }: IFoundPython
): Promise<void> {
  const agreed =
    ipykernel ||
    (await confirm(
      trans.__('Install ipykernel?'),
      trans.__(
        'Kernels need ipykernel, which is not installed in %1 on %2. Installed packages are not changed.',
        path,
        tpu.name
      ),
      trans.__('Install'),
      { harmless: true }
    ));
  if (agreed) {
    await model.connect(tpu, {
      environment: name,
      python_path: path,
      install_ipykernel: !ipykernel
    });
  }
}

/** Deletes a queued resource, with the TPUs that it was shown to have, and their disks. */
export async function deleteQueued(
  { forms, model }: Actions,
  queued: IQueuedResource
): Promise<void> {
  const { has_tpus, name, tpus } = queued;
  const agreed = await confirm(
    trans.__('Delete the queued resource %1?', name),
    has_tpus
      ? trans.__(
          'Its TPUs will be deleted, too, with everything on their disks: %1.',
          tpus.join(', ')
        )
      : trans.__('It is removed from Google’s queue.'),
    trans.__('Delete')
  );
  if (agreed) {
    const title = trans.__('Delete %1?', name);
    await named(queued, title, trans.__('Delete'), typed =>
      forms.queued.changes.send(() =>
        model.client.queued.delete(queued, {
          force: has_tpus,
          ...confirmed(typed)
        })
      )
    );
  }
}

/** Puts a queued resource back into the queue. */
export async function resetQueued(
  { forms, model }: Actions,
  queued: IQueuedResource
): Promise<void> {
  const title = trans.__('Reset %1?', queued.name);
  await named(queued, title, trans.__('Reset'), async name => {
    const { changes } = forms.queued;
    const { queued: requests } = model.client;
    if (await changes.send(() => requests.reset(queued, confirmed(name)))) {
      await forms.queued.load();
    }
  });
}

/** Closes a web app; asks first where that ends its server on the host. */
export async function closeApp(
  { model }: Actions,
  tpu: ITPU,
  { id, kind, name }: IApp
): Promise<void> {
  const agreed =
    kind !== 'tensorboard' ||
    (await confirm(
      trans.__('Close %1?', name),
      trans.__('TensorBoard stops on the host. Your logs are kept.'),
      trans.__('Close')
    ));
  if (agreed) {
    await model.close(tpu, id, ({ apps }) => apps.close(id));
  }
}

/** Closes a tunnel; asks first while it is in use. */
export async function closeTunnel(
  { model }: Actions,
  tpu: ITPU,
  { connections, id, port }: ITunnel
): Promise<void> {
  const agreed =
    connections === 0 ||
    (await confirm(
      trans.__('Close the tunnel to port %1?', port),
      trans._n(
        'This ends %1 connection.',
        'This ends %1 connections.',
        connections
      ),
      trans.__('Close')
    ));
  if (agreed) {
    await model.close(tpu, id, ({ tunnels }) => tunnels.close(tpu, id));
  }
}

/** Cancels an operation; asks first where that deletes a TPU. */
export async function cancel(
  { model }: Actions,
  operation: IOperation
): Promise<void> {
  const agreed =
    operation.kind !== 'create' ||
    (await confirm(
      trans.__('Stop creating %1?', operation.tpu),
      trans.__('Everything created so far is deleted.'),
      trans.__('Stop Creating'),
      { cancel: trans.__('Continue') }
    ));
  if (agreed) {
    await model.cancel(operation);
  }
}

/** Ends the attempts to delete a TPU, if the user agrees that it stays. */
export async function stopTrying(
  { model }: Actions,
  tpu: ITPU,
  { id }: IOperation
): Promise<void> {
  if (await confirmKeep(tpu)) {
    await model.send(tpu, ({ operations }) =>
      operations.stopTrying(id, { keep_tpu: true })
    );
  }
}

/** Tries again what an operation failed to do. */
export async function retry(
  actions: Actions,
  operation: IOperation
): Promise<void> {
  const { forms, model, view } = actions;
  const tpu = model.tpuOf(operation);
  const hunt = model.hunts.get(operation.id);
  if (hunt) {
    forms.create.fill(hunt.request.tpu, hunt.request);
    await actions.openCreateForm();
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
        if (forms.packages.isOf(operation)) {
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
      case 'guard':
      case 'profile':
      case 'report':
        break; // the user can set it, trace a kernel, or report a host again
      default:
        await actions.act(operation.kind, tpu);
    }
  }
  model.dismiss(operation.id);
}

/** Opens the form with what Google had no capacity for: for a hunt, or in another zone. */
export async function createElsewhere(
  actions: Actions,
  operation: IOperation,
  zone?: string
): Promise<void> {
  const request = requestOf(actions, operation);
  await actions.openCreateForm({ ...request, ...(zone && { zone }) }, !zone);
  actions.model.dismiss(operation.id);
}

/** What an operation was to create, as far as this page knows. */
function requestOf(
  { model }: Actions,
  operation: IOperation
): Partial<ICreateTPU> {
  const { tpu: name, zone } = operation;
  return model.createRequest(operation) ?? { name, zone };
}
