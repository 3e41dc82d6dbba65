// The SSH key for TPUs where OS Login decides who logs in: shown first, then added.

import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import React from 'react';

import { TPUModel } from '../model/model';
import { trans } from '../ui/translation';
import { SUCCESS_TIMEOUT, wait, waitToEnd } from '../ui/wait';

/** Adds the key to the user's Google account, or to the project, if the user agrees. */
export async function addSSHKey(model: TPUModel): Promise<void> {
  const plan = await wait(trans.__('Looking up your Google account.'), signal =>
    model.client.sshKey.add({ dry_run: true }, signal)
  );
  if (!plan) {
    return;
  }
  const { button } = await showDialog({
    title: trans.__('Add the SSH Key?'),
    body: (
      <div className="jp-tpu-Dialog">
        {[...plan.changes, ...plan.warnings].map(text => (
          <p key={text}>{text}</p>
        ))}
      </div>
    ),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: trans.__('Add') })
    ]
  });
  if (!button.accept) {
    return;
  }
  const added = await waitToEnd(
    trans.__('Adding the SSH key.'),
    model.client.sshKey.add({})
  );
  const place = added?.in_account ?? added?.in_project;
  if (place) {
    Notification.success(
      trans.__('The SSH key is added. You log in to hosts as %1.', place.user),
      { autoClose: SUCCESS_TIMEOUT }
    );
  }
}
