// The form that creates a TPU.

import { Button, HTMLSelect } from '@jupyterlab/ui-components';
import React, { useEffect, useId, useRef } from 'react';

import { Actions } from '../actions/actions';
import { durationLabel } from '../guard/guardLabels';
import { HuntFields } from '../hunts/huntFields';
import { coveringGrant, usd } from '../money/costLabels';
import { Price } from '../money/price';
import { typeDescription } from '../panel/tpuLabels';
import { Disclosure, EmptyState, Alert, Link } from '../ui/elements';
import { failureText } from '../ui/failures';
import { Check, Field, TextField } from '../ui/field';
import { FormPage, PackagesField, useUnfolding } from '../ui/formPage';
import { useStore } from '../ui/store';
import { trans } from '../ui/translation';
import { IFields } from './createForm';
import { nameRule } from './names';
import { NodeOptionFields } from './nodeOptionFields';
import { SetupFields } from './setupFields';
import { TypePicker } from './typePicker';
import { UnattendedFields } from './unattendedFields';

/** The network that every project has; a name, so not translated. */
const USUAL_NETWORK = 'default';

const ADVANCED = 'form#advanced';

const ADVANCED_FIELDS = [
  'version',
  'packages',
  'apt',
  'timezone',
  'script',
  'network',
  'subnetwork',
  'serviceAccount',
  'dataDisks',
  'tags',
  'labels',
  'startupScript'
] as const;

export function CreatePage({ actions }: { actions: Actions }): JSX.Element {
  const { model, view } = actions;
  const form = useStore(actions.createForm);
  const advanced = useId();
  const first = useRef<HTMLInputElement>(null);
  const { items: grants } = useStore(actions.grantsForm);
  const loaded = form.catalog !== null;
  const billed = form.catalog?.emulated === false;
  useEffect(() => {
    if (billed) {
      void actions.grantsForm.load();
    }
  }, [billed]);
  useEffect(() => first.current?.select(), [loaded]);
  useUnfolding(form, ADVANCED_FIELDS, () => view.open(ADVANCED));

  if (!form.catalog) {
    return model.catalogError ? (
      <EmptyState
        title={trans.__('TPU types could not be loaded')}
        {...failureAsText(model.catalogError)}
      >
        <Button
          className="jp-tpu-Button"
          onClick={() => actions.openCreateForm()}
        >
          {trans.__('Try Again')}
        </Button>
      </EmptyState>
    ) : (
      <EmptyState busy title={trans.__('Loading TPU types…')} />
    );
  }

  const { fields, type } = form;
  const set =
    <K extends keyof IFields>(field: K) =>
    (value: string) =>
      form.set(field, value as IFields[K]);
  const nameProblem = form.nameProblem();
  const open = view.isOpen(ADVANCED);
  const grant = coveringGrant(grants ?? [], type, {
    zone: fields.zone,
    tier: fields.tier,
    project: form.catalog.project
  });
  return (
    <FormPage
      actions={actions}
      form={form}
      label={trans.__('New TPU')}
      first={first}
      nameProblem={nameProblem}
      send={
        form.submitting
          ? trans.__('Creating…')
          : fields.hunt
            ? trans.__('Start Hunt')
            : trans.__('Create')
      }
    >
      {form.catalog.problem && (
        <Alert kind="warning" {...failureText(form.catalog.problem)} />
      )}
      <TextField
        label={trans.__('Name')}
        help={nameRule()}
        problem={nameProblem || form.problemOf('name')}
        input={first}
        value={fields.name}
        autoComplete="off"
        onChange={set('name')}
      />
      <Field
        label={trans.__('Type')}
        help={
          type && (
            <>
              {typeDescription(type)}
              {form.otherForm && (
                <>
                  {' '}
                  <Link
                    label={trans.__(
                      'Choose %1, which is %2',
                      form.otherForm.name,
                      form.otherForm.meaning
                    )}
                    onClick={() => form.set('type', form.otherForm!.name)}
                  >
                    {trans._n(
                      'Also on %1 VM: %2',
                      'Also on %1 VMs: %2',
                      form.otherForm.hosts,
                      form.otherForm.name
                    )}
                  </Link>
                </>
              )}
            </>
          )
        }
        problem={form.problemOf('type')}
      >
        {attributes => (
          <TypePicker
            attributes={attributes}
            groups={form.generations}
            value={fields.type}
            price={one => {
              const { list_usd_per_hour: price } = form.costOf(one);
              return price === null ? '' : trans.__('%1/h', usd(price));
            }}
            onPick={name => form.set('type', name)}
          />
        )}
      </Field>
      <Field
        label={trans.__('Zone')}
        help={
          form.awayFromHome
            ? fields.zone === form.nearestZone
              ? trans.__(
                  'Your default zone, %1, does not offer this type. %2 is the nearest zone that does.',
                  form.catalog.default_zone,
                  fields.zone
                )
              : trans.__(
                  'Your default zone, %1, does not offer this type.',
                  form.catalog.default_zone
                )
            : undefined
        }
        problem={form.problemOf('zone')}
      >
        {attributes => (
          <HTMLSelect
            {...attributes}
            value={fields.zone}
            onChange={event => set('zone')(event.target.value)}
          >
            {form.zones.map(zone => (
              <option key={zone}>{zone}</option>
            ))}
            {fields.zone && !form.zones.includes(fields.zone) && (
              <option>{fields.zone}</option>
            )}
          </HTMLSelect>
        )}
      </Field>
      <fieldset>
        <legend>{trans.__('Tier')}</legend>
        <Tier
          value="on-demand"
          actions={actions}
          label={trans.__('On demand')}
          help={trans.__('Runs until you stop or delete it')}
        />
        <Tier
          value="spot"
          actions={actions}
          label={trans.__('Spot')}
          help={trans.__('Cheaper, but Google can preempt it at any time')}
        />
        <Tier
          value="reserved"
          actions={actions}
          label={trans.__('Reserved')}
          help={trans.__('From a reservation of your project')}
        />
        <Tier
          value="flex-start"
          actions={actions}
          label={trans.__('Flex-start')}
          help={trans.__(
            'Runs for a limited time. Waits in Google’s queue until there is capacity'
          )}
        />
      </fieldset>
      {form.limited && <RunFor actions={actions} />}
      <p className="jp-tpu-Price" role="status">
        <Price cost={{ ...form.cost, grant }} tier={fields.tier} />
        {billed && (
          <>
            {!grant && (
              <small>
                {trans.__('You pay while it is ready, used or not.')}{' '}
                {trans.__('In a grant, only network traffic is billed.')}
              </small>
            )}
            <Button
              className="jp-tpu-Button"
              type="button"
              onClick={() => actions.openGrants()}
            >
              {trans.__('Grants…')}
            </Button>
          </>
        )}
      </p>
      <HuntFields actions={actions} />
      <Check
        checked={fields.connect}
        label={trans.__('Connect when it is ready')}
        help={trans.__('Installs Python and JAX on it, and adds its kernel')}
        onChange={on => form.set('connect', on)}
      />
      <UnattendedFields actions={actions} />
      <Disclosure
        open={open}
        controls={advanced}
        onToggle={() => view.toggle(ADVANCED)}
      >
        {trans.__('Advanced')}
      </Disclosure>
      {open && (
        <div id={advanced} className="jp-tpu-Form-advanced">
          <TextField
            label={trans.__('Runtime version')}
            help={trans.__('OS image of the hosts')}
            problem={form.problemOf('version')}
            list={`${advanced}versions`}
            value={fields.version}
            onChange={set('version')}
          />
          <datalist id={`${advanced}versions`}>
            {form.catalog.versions.map(version => (
              <option key={version} value={version} />
            ))}
          </datalist>
          <PackagesField
            actions={actions}
            rows={2}
            problem={form.problemOf('packages')}
            disabled={!fields.connect}
            value={fields.packages}
            onChange={set('packages')}
          />
          <SetupFields
            actions={actions}
            form={form}
            disabled={!fields.connect}
          />
          <TextField
            label={trans.__('Network')}
            placeholder={USUAL_NETWORK}
            problem={form.problemOf('network')}
            value={fields.network}
            onChange={set('network')}
          />
          <TextField
            label={trans.__('Subnetwork')}
            placeholder={USUAL_NETWORK}
            problem={form.problemOf('subnetwork')}
            value={fields.subnetwork}
            onChange={set('subnetwork')}
          />
          <NodeOptionFields form={form} />
        </div>
      )}
    </FormPage>
  );
}

/** How long a flex-start TPU runs. */
function RunFor(props: { actions: Actions }): JSX.Element {
  const form = useStore(props.actions.createForm);
  return (
    <Field
      label={trans.__('Flex-start runs for')}
      help={trans.__('Google then deletes it with its disk.')}
      problem={form.problemOf('runFor')}
    >
      {attributes => (
        <HTMLSelect
          {...attributes}
          value={form.fields.runFor}
          onChange={event => form.set('runFor', event.target.value)}
        >
          {form.runChoices.map(seconds => (
            <option key={seconds} value={seconds}>
              {durationLabel(seconds)}
            </option>
          ))}
        </HTMLSelect>
      )}
    </Field>
  );
}

function Tier(props: {
  value: IFields['tier'];
  label: string;
  help: string;
  actions: Actions;
}): JSX.Element {
  const { value, label, help } = props;
  const form = props.actions.createForm;
  return (
    <label className="jp-tpu-Check">
      <input
        type="radio"
        name="jp-tpu-tier"
        checked={form.fields.tier === value}
        onChange={() => form.set('tier', value)}
      />
      <span>
        {label}
        <small>{help}</small>
      </span>
    </label>
  );
}

function failureAsText(failure: Parameters<typeof failureText>[0]): {
  text: string;
  hint: string;
} {
  const { message, hint } = failureText(failure);
  return { text: message, hint };
}
