// What may be used at no charge: a list of grants, and a form that adds one.

import React from 'react';

import { useActions } from '../actions/useActions';
import { facts } from '../language/text';
import { trans } from '../language/translation';
import { tierLabel } from '../model/tpuLabels';
import { IGrant, IGrantUse } from '../rest/api';
import { ListPage } from '../ui/listed';
import { Row } from '../ui/rows';
import { NUMBER, TRIMMED } from '../ui/typed';
import { GrantsForm } from './grantsForm';
import { limitFields } from './limitFields';

/** A name, so not translated. */
const EXAMPLE = 'trc-v5e';
const TIERS: IGrant['tiers'] = ['spot', 'on-demand', 'reserved', 'flex-start'];

export function GrantsPage() {
  const { forms } = useActions();
  const [types, zones, until] = limitFields(
    '',
    trans.__('Types such as v5litepod-8, or generations such as v5e')
  );
  return (
    <ListPage
      form={forms.of(GrantsForm)}
      title={trans.__('Grants')}
      about={
        <p>
          {trans.__(
            'TPUs that you may use at no charge, such as those of the TPU Research Cloud (TRC): one grant for each line of Google’s email. Outside a grant, nothing is created until you confirm its price.'
          )}
        </p>
      }
      loading={trans.__('Loading grants…')}
      none={trans.__('There are no grants.')}
      row={use => <Grant key={use.grant.name} use={use} />}
      fields={[
        {
          name: 'name',
          label: trans.__('Name'),
          typed: TRIMMED,
          placeholder: EXAMPLE,
          autoComplete: 'off'
        },
        types,
        zones,
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
          typed: NUMBER,
          min: 1
        },
        until
      ]}
      add={trans.__('Add Grant')}
    />
  );
}

function Grant({ use }: { use: IGrantUse }) {
  const form = useActions().forms.of(GrantsForm);
  const { expired, grant, used } = use;
  const tiers = grant.tiers.map(tier => tierLabel(tier)).join(', ');
  return (
    <Row
      name={grant.name}
      state={{ label: expired ? trans.__('expired') : '', tone: 'bad' }}
      remove={{
        label: trans.__('Remove %1', grant.name),
        disabled: form.submitting,
        run: () => form.remove(grant.name)
      }}
      more={
        <>
          {facts(grant.types.join(', '), grant.zones.join(', '), tiers)}
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
