// Folders that hosts share: what would be done is shown first, by an operation that changes nothing.

import React from 'react';

import { Lookups } from '../model/lookups';
import { TPUModel } from '../model/model';
import { keyOf } from '../model/resources';
import { IOperation, ISharedFolder, IShareFolder, ITPU } from '../rest/api';
import { Check, TextField } from '../ui/field';
import { ask } from '../ui/formDialog';
import { trans } from '../ui/translation';
import { shareResult } from './shareSteps';

export class ShareActions {
  constructor(private _model: TPUModel) {
    this.lookups = new Lookups(tpu => _model.client.shares.list(tpu));
    _model.operationEnded.connect(this._onEnded, this);
  }

  /** Asking the hosts; what they said is then in the TPU. */
  readonly lookups;

  /** Asks for a folder, shows what sharing it changes, and does it. */
  async share(tpu: ITPU): Promise<void> {
    const others = this._model.tpus.filter(
      one => one.zone === tpu.zone && one.state === 'READY' && one.id !== tpu.id
    );
    const request = await askShare(tpu, others);
    if (request) {
      await this._plan(tpu, request);
    }
  }

  /** Takes a folder from all other hosts; shows before what that changes. */
  async stop(tpu: ITPU, folder: ISharedFolder): Promise<void> {
    await this._plan(tpu, { folder: folder.path, remove: true });
  }

  /** Does again what an operation failed to do; shows before what that changes. */
  async again(tpu: ITPU, operation: IOperation): Promise<void> {
    const result = shareResult(operation);
    if (result) {
      await this._plan(tpu, result.request);
    } else {
      await this.share(tpu); // it ended with its server
    }
  }

  private async _plan(tpu: ITPU, request: IShareFolder): Promise<void> {
    const id = await this._model.share(tpu, { ...request, dry_run: true });
    this._planned = id ?? '';
    const operation = this._model.operation(this._planned);
    if (operation && operation.state !== 'running') {
      await this._propose(operation);
    }
  }

  /** Shows what an operation has planned, and does it if the user agrees. */
  private async _propose(operation: IOperation): Promise<void> {
    this._planned = '';
    const result = shareResult(operation);
    const tpu = this._model.tpu(
      keyOf({ name: operation.tpu, zone: operation.zone })
    );
    if (operation.state !== 'done' || !result || !tpu) {
      return; // the panel says why
    }
    const agreed = await (
      await import('../actions/dialogs')
    ).confirmShare(result);
    this._model.dismiss(operation.id);
    if (agreed) {
      await this._model.share(tpu, { ...result.request, dry_run: false });
    }
  }

  private _onEnded(_: unknown, operation: IOperation): void {
    if (operation.id === this._planned) {
      void this._propose(operation);
    }
  }

  /** The operation whose plan is to be shown. */
  private _planned = '';
}

/** Asks for the folder, and which other TPUs get it; null if there is nothing to do. */
async function askShare(
  tpu: ITPU,
  others: ITPU[]
): Promise<IShareFolder | null> {
  const chosen = await ask(
    trans.__('Share a folder of %1', tpu.name),
    trans.__('Show What Changes'),
    { folder: 'shared', tpus: [] as string[] },
    (value, change) => (
      <>
        <TextField
          label={trans.__('Folder on host 0')}
          help={trans.__(
            'Relative to the home folder, or an absolute path. The other hosts get it at the same path, by NFS.'
          )}
          required
          value={value.folder}
          onChange={folder => change({ folder })}
        />
        {others.map(({ name }) => (
          <Check
            key={name}
            checked={value.tpus.includes(name)}
            label={trans.__('On the hosts of %1, too', name)}
            onChange={on =>
              change({
                tpus: on
                  ? [...value.tpus, name]
                  : value.tpus.filter(one => one !== name)
              })
            }
          />
        ))}
      </>
    )
  );
  return chosen?.folder ? chosen : null;
}
