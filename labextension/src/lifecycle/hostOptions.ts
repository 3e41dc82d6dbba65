// What hosts get beside Python, and what a new TPU has beyond its type, image and network: as fields of
// forms, which have the server's names and values.

import { trans } from '../language/translation';
import { ICreateTPU, IHostSetup, INodeOptions } from '../rest/api';
import { FieldList } from '../ui/fields';
import { PACKAGES } from '../ui/packages';
import { DISKS, PAIRS, SCRIPT, TRIMMED, WORDS } from '../ui/typed';

export const NO_SETUP: IHostSetup = {
  apt: [],
  timezone: '',
  oh_my_zsh: false,
  script: ''
};

/** The fields for what hosts get beside Python. */
export function setupFieldList(disabled = false): FieldList<IHostSetup> {
  return [
    {
      name: 'apt',
      label: trans.__('apt packages'),
      help: trans.__('For example ffmpeg. Installed on each host'),
      kind: 'area',
      rows: 2,
      typed: PACKAGES,
      disabled
    },
    {
      name: 'timezone',
      label: trans.__('Time zone'),
      help: trans.__('For example Europe/Berlin'),
      typed: TRIMMED,
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
      typed: SCRIPT,
      disabled
    },
    {
      name: 'oh_my_zsh',
      label: trans.__('oh-my-zsh'),
      help: trans.__('Makes zsh the login shell'),
      kind: 'check',
      disabled
    }
  ];
}

/** Those for which there is no field are kept of an earlier request. */
export const NO_OPTIONS: Required<INodeOptions> = {
  topology: '',
  internal_ips: false,
  service_account: '',
  scopes: [],
  data_disks: [],
  tags: [],
  metadata: {},
  startup_script: '',
  description: '',
  secure_boot: false
};

/** The fields for what a new TPU has beyond its type, image and network. */
export function nodeOptionFieldList(): FieldList<
  INodeOptions & Pick<ICreateTPU, 'labels'>
> {
  return [
    {
      name: 'internal_ips',
      label: trans.__('Internal addresses only'),
      help: trans.__('Connecting then uses IAP and gcloud'),
      kind: 'check'
    },
    {
      name: 'service_account',
      label: trans.__('Service account'),
      help: trans.__(
        'Its email address. Programs on the hosts call Google as this account.'
      ),
      typed: TRIMMED
    },
    {
      name: 'data_disks',
      label: trans.__('Data disks'),
      help: trans.__('Names of disks in the zone; NAME:ro is read-only'),
      typed: DISKS
    },
    {
      name: 'tags',
      label: trans.__('Network tags'),
      help: trans.__('For firewall rules'),
      typed: WORDS
    },
    {
      name: 'labels',
      label: trans.__('Labels'),
      help: trans.__('For example team=vision'),
      typed: PAIRS
    },
    {
      name: 'startup_script',
      label: trans.__('Startup script'),
      help: trans.__('Runs as root on each host, at each start'),
      kind: 'area',
      rows: 4,
      typed: SCRIPT
    }
  ];
}
