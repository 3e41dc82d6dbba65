// What hosts get beside Python, and what a new TPU has beyond its type, image and network: as fields of
// forms, which have the server's names, and as requests.

import { packagesIn } from '../environments/packages';
import { IHostSetup, INodeOptions } from '../rest/api';
import { FieldList } from '../ui/fields';
import { trans } from '../ui/translation';

/** Packages and the script as they are typed. */
export type ISetupFields = Omit<IHostSetup, 'apt'> & { apt: string };

/** What the fields show of *setup*. */
export function setupFields(setup?: IHostSetup): ISetupFields {
  return {
    apt: setup?.apt.join('\n') ?? '',
    timezone: setup?.timezone ?? '',
    oh_my_zsh: setup?.oh_my_zsh ?? false,
    script: setup?.script ?? ''
  };
}

/** Whether anything is asked for. */
export function hasSetup(fields: ISetupFields): boolean {
  const { apt, oh_my_zsh, script, timezone } = fields;
  return !!(apt.trim() || timezone.trim() || oh_my_zsh || script.trim());
}

/** What the fields ask for. */
export function setupOf(fields: ISetupFields): IHostSetup {
  const { apt, oh_my_zsh, script, timezone } = fields;
  return {
    apt: packagesIn(apt),
    timezone: timezone.trim(),
    oh_my_zsh,
    script: script.trim() ? script : ''
  };
}

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
      name: 'oh_my_zsh',
      label: trans.__('oh-my-zsh'),
      help: trans.__('Makes zsh the login shell'),
      kind: 'check',
      disabled
    }
  ];
}

export interface INodeOptionFields {
  internal_ips: boolean;
  service_account: string;
  /** Names or KEY=VALUE, as they are typed. */
  data_disks: string;
  tags: string;
  labels: string;
  /** The text of the script. */
  startup_script: string;
  /** What an earlier request had, for which there is no field. */
  otherOptions: INodeOptions;
}

/** What the fields show of *options* and *labels*. */
export function nodeOptionFields(
  options: INodeOptions = {},
  labels: { [key: string]: string } = {}
): INodeOptionFields {
  return {
    internal_ips: options.internal_ips ?? false,
    service_account: options.service_account ?? '',
    data_disks: (options.data_disks ?? [])
      .map(({ mode, source }) => source + (mode === 'read-only' ? ':ro' : ''))
      .join('\n'),
    tags: (options.tags ?? []).join(' '),
    labels: Object.entries(labels)
      .map(([key, value]) => `${key}=${value}`)
      .join('\n'),
    startup_script: options.startup_script ?? '',
    otherOptions: options
  };
}

/** What the fields ask for; empty where they ask for nothing, so that the server's defaults hold. */
export function nodeOptionsOf(fields: INodeOptionFields): {
  options?: INodeOptions;
  labels?: { [key: string]: string };
} {
  const labels = Object.fromEntries(
    packagesIn(fields.labels).map(word => {
      const [key, ...value] = word.split('=');
      return [key, value.join('=')];
    })
  );
  const options: INodeOptions = {
    ...fields.otherOptions,
    internal_ips: fields.internal_ips,
    service_account: fields.service_account.trim(),
    data_disks: packagesIn(fields.data_disks).map(word => ({
      source: word.replace(/:ro$/, ''),
      mode: word.endsWith(':ro') ? 'read-only' : 'read-write'
    })),
    tags: packagesIn(fields.tags),
    startup_script: fields.startup_script.trim() ? fields.startup_script : ''
  };
  return {
    ...(Object.values(options).some(isGiven) ? { options } : {}),
    ...(isGiven(labels) ? { labels } : {})
  };
}

function isGiven(value: boolean | string | object): boolean {
  return typeof value === 'object' ? Object.keys(value).length > 0 : !!value;
}

/** The fields for what a new TPU has beyond its type, image and network. */
export function nodeOptionFieldList(): FieldList<INodeOptionFields> {
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
      )
    },
    {
      name: 'data_disks',
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
      name: 'startup_script',
      label: trans.__('Startup script'),
      help: trans.__('Runs as root on each host, at each start'),
      kind: 'area',
      rows: 4
    }
  ];
}
