// The SSH key for TPUs where OS Login decides who logs in: shown first, then added.

import React from 'react';

import { trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { confirm } from '../ui/confirm';
import { notify } from '../ui/notify';
import { wait, waitToEnd } from '../ui/wait';

/** Adds the key to the user's Google account, or to the project, if the user agrees. */
export async function addSSHKey(model: TPUModel): Promise<void> {
  const plan = await wait(trans.__('Looking up your Google account.'), signal =>
    model.client.sshKey.add({ dry_run: true }, signal)
  );
  if (!plan) {
    return;
  }
  const agreed = await confirm(
    trans.__('Add the SSH key?'),
    <>
      {[...plan.changes, ...plan.warnings].map(text => (
        <p key={text}>{text}</p>
      ))}
    </>,
    trans.__('Add'),
    { harmless: true }
  );
  if (!agreed) {
    return;
  }
  const added = await waitToEnd(
    trans.__('Adding the SSH key.'),
    model.client.sshKey.add({})
  );
  const place = added?.in_account ?? added?.in_project;
  if (place) {
    notify.success(
      trans.__('The SSH key is added. You log in to hosts as %1.', place.user)
    );
  }
}
