// The dialog that asks for a folder to share, and which other TPUs get it.

import { IShareFolder, ITPU } from '../rest/api';
import { ask } from '../ui/formDialog';
import { trans } from '../ui/translation';

export async function askShare(
  tpu: ITPU,
  others: ITPU[],
  submit: (request: IShareFolder) => Promise<void>
): Promise<void> {
  await ask({
    title: trans.__('Share a Folder of %1', tpu.name),
    accept: trans.__('Show What Changes'),
    initial: { folder: 'shared', tpus: [] as string[] },
    fields: () => [
      {
        name: 'folder',
        label: trans.__('Folder on host 0'),
        help: trans.__(
          'Relative to the home folder, or an absolute path. The other hosts get it at the same path, by NFS.'
        ),
        kind: 'path',
        place: { tpu, host: 0, folder: true },
        required: true
      },
      {
        name: 'tpus',
        label: trans.__('Also share with'),
        kind: 'ticks',
        choices: others.map(({ name }) => [
          name,
          trans.__('On the hosts of %1, too', name)
        ])
      }
    ],
    submit
  });
}
