// What may be used at no charge: a list of grants, and a form that adds one.

import { Button, closeIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { Actions } from '../actions/actions';
import { tierLabel } from '../panel/tpuLabels';
import { IGrantUse } from '../rest/api';
import { Alert, IconButton } from '../ui/elements';
import { failureText } from '../ui/failures';
import { reportHalfTyped } from '../ui/field';
import { FormFields } from '../ui/fields';
import { Listed, Rows } from '../ui/listed';
import { useStore } from '../ui/store';
import { Row } from '../ui/rows';
import { trans } from '../ui/translation';
import { IGrantFields } from './grantsForm';

/** Names, so not translated. */
const EXAMPLES = { name: 'trc-v5e', types: 'v5e', zones: 'us-central1-a' };
const TIERS: IGrantFields['tier'][] = [
  'spot',
  'on-demand',
  'reserved',
  'flex-start'
];

export function GrantsPage({ actions }: { actions: Actions }): JSX.Element {
  const form = useStore(actions.grantsForm);
  return (
    <form
      className="jp-tpu-Form"
      aria-label={trans.__('Grants')}
      noValidate
      onSubmit={event => {
        event.preventDefault();
        if (!reportHalfTyped(event.currentTarget)) {
          void form.submit();
        }
      }}
    >
      <p>
        {trans.__(
          'TPUs that you may use at no charge, such as those of the TPU Research Cloud (TRC): one grant for each line of Google’s email. Outside a grant, nothing is created until you confirm its price.'
        )}
      </p>
      <Listed
        items={form.items}
        failure={form.loadFailure}
        loading={trans.__('Loading grants…')}
        none={trans.__('There are no grants.')}
        onRetry={() => form.load()}
      >
        {items => (
          <Rows title={trans.__('Grants')}>
            {items.map(use => (
              <Grant key={use.grant.name} use={use} actions={actions} />
            ))}
          </Rows>
        )}
      </Listed>
      <FormFields
        form={form}
        fields={[
          {
            name: 'name',
            label: trans.__('Name'),
            placeholder: EXAMPLES.name,
            autoComplete: 'off'
          },
          {
            name: 'types',
            label: trans.__('Types'),
            help: trans.__(
              'Types such as v5litepod-8, or generations such as v5e'
            ),
            placeholder: EXAMPLES.types
          },
          {
            name: 'zones',
            label: trans.__('Zones'),
            placeholder: EXAMPLES.zones
          },
          {
            name: 'tier',
            label: trans.__('Tier'),
            kind: 'select',
            choices: TIERS.map(tier => [tier, tierLabel(tier)])
          },
          {
            name: 'chips',
            label: trans.__('Chips'),
            help: trans.__('In use at the same time. A v2-8 or v3-8 has 4.'),
            kind: 'number',
            min: 1
          },
          {
            name: 'until',
            label: trans.__('Last day'),
            help: trans.__('Leave empty if it has no end'),
            kind: 'date'
          }
        ]}
      />
      {form.failure && <Alert {...failureText(form.failure)} />}
      <div className="jp-tpu-Buttons">
        <Button
          className="jp-tpu-Button jp-mod-main"
          type="submit"
          disabled={form.submitting || !form.complete}
        >
          {trans.__('Add Grant')}
        </Button>
      </div>
    </form>
  );
}

function Grant(props: { use: IGrantUse; actions: Actions }): JSX.Element {
  const {
    actions: { grantsForm: form },
    use: { expired, grant, used }
  } = props;
  const tiers = grant.tiers.map(tier => tierLabel(tier)).join(', ');
  return (
    <Row
      name={grant.name}
      title={grant.name}
      state={{ label: expired ? trans.__('expired') : '', tone: 'bad' }}
      buttons={
        <IconButton
          icon={closeIcon}
          label={trans.__('Remove %1', grant.name)}
          disabled={form.submitting}
          onClick={() => void form.remove(grant.name)}
        />
      }
      more={
        <>
          {[grant.types.join(', '), grant.zones.join(', '), tiers].join(' · ')}
          <br />
          {used === null
            ? trans._n('%1 chip', '%1 chips', grant.chips)
            : trans._n(
                '%2 of %1 chip in use',
                '%2 of %1 chips in use',
                grant.chips,
                used
              )}
          {grant.until && ` · ${trans.__('until %1', grant.until)}`}
        </>
      }
    />
  );
}
