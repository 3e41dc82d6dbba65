// The fields for what a new TPU has beyond its type, image and network.

import React from 'react';

import { Check, TextArea, TextField } from '../ui/field';
import { trans } from '../ui/translation';
import { INodeOptionFields } from './nodeOptions';

/** A form that has them. */
interface INodeOptionForm {
  fields: INodeOptionFields;
  set<K extends keyof INodeOptionFields>(
    field: K,
    value: INodeOptionFields[K]
  ): void;
  problemOf(field: keyof INodeOptionFields): string;
}

export function NodeOptionFields(props: {
  form: INodeOptionForm;
}): JSX.Element {
  const { form } = props;
  const { fields } = form;
  const text = (
    field: 'dataDisks' | 'labels' | 'serviceAccount' | 'tags',
    label: string,
    help: string
  ) => (
    <TextField
      label={label}
      help={help}
      problem={form.problemOf(field)}
      value={fields[field]}
      onChange={value => form.set(field, value)}
    />
  );
  return (
    <>
      <Check
        checked={fields.internalIPs}
        label={trans.__('Internal addresses only')}
        help={trans.__('Connecting then uses IAP and gcloud')}
        onChange={on => form.set('internalIPs', on)}
      />
      {text(
        'serviceAccount',
        trans.__('Service account'),
        trans.__(
          'Its email address. Programs on the hosts call Google as this account.'
        )
      )}
      {text(
        'dataDisks',
        trans.__('Data disks'),
        trans.__('Names of disks in the zone; NAME:ro is read-only')
      )}
      {text('tags', trans.__('Network tags'), trans.__('For firewall rules'))}
      {text('labels', trans.__('Labels'), trans.__('For example team=vision'))}
      <TextArea
        label={trans.__('Startup script')}
        help={trans.__('Runs as root on each host, at each start')}
        problem={form.problemOf('startupScript')}
        rows={4}
        value={fields.startupScript}
        onChange={value => form.set('startupScript', value)}
      />
    </>
  );
}
