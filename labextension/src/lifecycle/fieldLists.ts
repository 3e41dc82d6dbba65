// The fields for what a new TPU or an environment has, beyond the usual.

import { FieldList } from '../ui/fields';
import { trans } from '../ui/translation';
import { INodeOptionFields } from './nodeOptions';
import { ISetupFields } from './setupForm';

/** The fields for what hosts get beside Python. */
export function setupFieldList(disabled = false): FieldList<ISetupFields> {
  return [
    {
      name: 'apt',
      label: trans.__('apt packages'),
      help: trans.__('For example ffmpeg. Installed on each host'),
      kind: 'area',
      rows: 2,
      disabled
    },
    {
      name: 'timezone',
      label: trans.__('Time zone'),
      help: trans.__('For example Europe/Berlin'),
      disabled
    },
    {
      name: 'script',
      label: trans.__('Setup script'),
      help: trans.__(
        'Runs once on each host, as the login user, who can use sudo'
      ),
      kind: 'area',
      rows: 4,
      disabled
    },
    {
      name: 'ohMyZsh',
      label: trans.__('oh-my-zsh'),
      help: trans.__('Makes zsh the login shell'),
      kind: 'check',
      disabled
    }
  ];
}

/** The fields for what a new TPU has beyond its type, image and network. */
export function nodeOptionFieldList(): FieldList<INodeOptionFields> {
  return [
    {
      name: 'internalIPs',
      label: trans.__('Internal addresses only'),
      help: trans.__('Connecting then uses IAP and gcloud'),
      kind: 'check'
    },
    {
      name: 'serviceAccount',
      label: trans.__('Service account'),
      help: trans.__(
        'Its email address. Programs on the hosts call Google as this account.'
      )
    },
    {
      name: 'dataDisks',
      label: trans.__('Data disks'),
      help: trans.__('Names of disks in the zone; NAME:ro is read-only')
    },
    {
      name: 'tags',
      label: trans.__('Network tags'),
      help: trans.__('For firewall rules')
    },
    {
      name: 'labels',
      label: trans.__('Labels'),
      help: trans.__('For example team=vision')
    },
    {
      name: 'startupScript',
      label: trans.__('Startup script'),
      help: trans.__('Runs as root on each host, at each start'),
      kind: 'area',
      rows: 4
    }
  ];
}
