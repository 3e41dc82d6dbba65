// What a new TPU has beyond its type, image and network, as fields of its form.

import { packagesIn } from '../environments/packages';
import { INodeOptions } from '../rest/api';

export interface INodeOptionFields {
  internalIPs: boolean;
  serviceAccount: string;
  /** Names or KEY=VALUE, as they are typed. */
  dataDisks: string;
  tags: string;
  labels: string;
  /** The text of the script. */
  startupScript: string;
  /** What an earlier request had, for which there is no field. */
  otherOptions: INodeOptions;
}

/** What the fields show of *options* and *labels*. */
export function nodeOptionFields(
  options: INodeOptions = {},
  labels: { [key: string]: string } = {}
): INodeOptionFields {
  return {
    internalIPs: options.internal_ips ?? false,
    serviceAccount: options.service_account ?? '',
    dataDisks: (options.data_disks ?? [])
      .map(({ mode, source }) => source + (mode === 'read-only' ? ':ro' : ''))
      .join('\n'),
    tags: (options.tags ?? []).join(' '),
    labels: Object.entries(labels)
      .map(([key, value]) => `${key}=${value}`)
      .join('\n'),
    startupScript: options.startup_script ?? '',
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
    internal_ips: fields.internalIPs,
    service_account: fields.serviceAccount.trim(),
    data_disks: packagesIn(fields.dataDisks).map(word => ({
      source: word.replace(/:ro$/, ''),
      mode: word.endsWith(':ro') ? 'read-only' : 'read-write'
    })),
    tags: packagesIn(fields.tags),
    startup_script: fields.startupScript.trim() ? fields.startupScript : ''
  };
  return {
    ...(Object.values(options).some(isGiven) ? { options } : {}),
    ...(Object.keys(labels).length ? { labels } : {})
  };
}

function isGiven(value: boolean | string | object): boolean {
  return typeof value === 'object' ? Object.keys(value).length > 0 : !!value;
}
