// The dialogs that ask what to copy, to sync or to share.

import { PathExt } from '@jupyterlab/coreutils';

import { trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { IShareFolder, ITPU } from '../rest/api';
import { hostField } from '../ui/fields';
import { ask } from '../ui/formDialog';
import { serverPath } from '../ui/paths';

const localHelp = () =>
  trans.__('Relative to the folder that Jupyter shows, or a full path.');

/** Asks for the sources, the destination and the direction; *source*: what is suggested. */
export async function copyFiles(
  tpu: ITPU,
  model: TPUModel,
  source = ''
): Promise<void> {
  await ask({
    title: trans.__('Copy Files and Folders to or from %1', tpu.name),
    accept: trans.__('Copy'),
    initial: { way: 'up', source, destination: '', host: 0 },
    fields: value => {
      const down = value.way === 'down';
      const there = { tpu, host: value.host };
      const where = trans.__(
        'Existing folder: copied into it. Other name: copied under this name.'
      );
      return [
        {
          name: 'way',
          label: trans.__('Direction'),
          kind: 'select',
          choices: [
            ['up', trans.__('To the TPU')],
            ...(tpu.hosts.length > 1
              ? ([['all', trans.__('To all hosts of the TPU')]] as const)
              : []),
            ['down', trans.__('From the TPU')]
          ]
        },
        {
          name: 'source',
          label: down
            ? trans.__('File or folder on the TPU')
            : trans.__('File or folder on the computer that runs Jupyter'),
          help: down
            ? trans.__('Relative to the home folder, or a full path.')
            : localHelp(),
          ...(value.source.includes('\n')
            ? ({ kind: 'area', rows: 4 } as const)
            : ({ kind: 'path', place: down ? there : {} } as const)),
          required: true
        },
        {
          name: 'destination',
          label: down
            ? trans.__('Copy to, on the computer that runs Jupyter (optional)')
            : trans.__('Copy to, on the TPU (optional)'),
          help: down
            ? trans.__('%1 Empty: the folder that Jupyter shows.', where)
            : trans.__('%1 Empty: the home folder.', where),
          kind: 'path',
          place: down ? { folder: true } : { ...there, folder: true }
        },
        value.way !== 'all' && hostField(tpu)
      ];
    },
    submit: ({ destination, host, source: from, way }) => {
      const down = way === 'down';
      return model.begin(() =>
        model.client.copies.start(tpu, {
          sources: from
            .split('\n')
            .filter(path => path.trim())
            .map(path => (down ? path : serverPath(path))),
          destination: down ? serverPath(destination) : destination,
          download: down,
          hosts: way === 'all' ? 'all' : String(host)
        })
      );
    }
  });
}

/** Asks for the folders and the direction; *folder*: what is suggested. */
export async function syncFolder(
  tpu: ITPU,
  model: TPUModel,
  folder: string
): Promise<string> {
  const done = await ask({
    title: trans.__('Sync a Folder with %1', tpu.name),
    accept: trans.__('Sync'),
    initial: { folder, remote: '', host: 0, way: 'push' },
    fields: value => [
      {
        name: 'folder',
        label: trans.__('Folder on the computer that runs Jupyter'),
        help: trans.__(
          '%1 Files excluded by .gitignore are not copied. A file that was changed on both sides is not overwritten.',
          localHelp()
        ),
        kind: 'path',
        place: { folder: true },
        required: true
      },
      {
        name: 'remote',
        label: trans.__('Folder on the TPU (optional)'),
        help: trans.__('Empty: the same name, in the home folder.'),
        kind: 'path',
        place: { tpu, host: value.host, folder: true },
        placeholder: `~/${PathExt.basename(serverPath(value.folder))}`
      },
      {
        name: 'way',
        label: trans.__('Direction'),
        kind: 'select',
        choices: [
          ['push', trans.__('To all hosts of the TPU, once')],
          ['watch', trans.__('To all hosts, and after each change')],
          ['pull', trans.__('From the TPU to here')]
        ]
      },
      value.way === 'pull' && hostField(tpu)
    ],
    submit: ({ way, ...value }) =>
      model.begin(() =>
        model.client.sync.start(tpu, {
          ...value,
          folder: serverPath(value.folder),
          pull: way === 'pull',
          watch: way === 'watch'
        })
      )
  });
  return done?.folder ?? folder;
}

/** Asks for a folder to share, and which other TPUs get it. */
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
