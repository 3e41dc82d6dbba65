// What the forms of the panel have in common.

import React, { RefObject, useEffect, useRef } from 'react';

import { IPanelActions } from '../actions/panelActions';
import { useActions } from '../actions/useActions';
import { trans } from '../language/translation';
import { failureText } from '../rest/failureText';
import { keyOf } from '../rest/tpuRef';
import { checkSetup } from '../setup/doctorDialogs';
import { Alert, TextButton } from '../ui/elements';
import { IField } from '../ui/fields';
import { PanelForm } from '../ui/listed';
import { PACKAGES } from '../ui/packages';
import { approveCost } from './approval';
import { ConnectForm } from './connectForm';
import { CreateForm } from './createForm';
import { OtherZones } from './otherZones';

/** Checks what can keep a TPU from being created. */
export function CheckSetup({ form }: { form?: CreateForm }) {
  const { model } = useActions();
  return (
    <TextButton onClick={() => void checkSetup(model, form?.request)}>
      {trans.__('Check Setup…')}
    </TextButton>
  );
}

/** Sends a form; the list then shows what it led to. */
export async function submit(
  { view }: IPanelActions,
  form: CreateForm | ConnectForm
): Promise<void> {
  if (form instanceof CreateForm) {
    if (!(await form.check())) {
      return;
    }
    const agreement = await approveCost(form);
    const { fields } = form;
    if (!agreement || !(await form.submit(agreement))) {
      return;
    }
    view.awaited = keyOf(fields);
  } else if (!(await form.submit())) {
    return;
  }
  view.show('list');
}

/** A form: its fields, why the server refused it, and the buttons. */
export function FormPage(props: {
  form: CreateForm | ConnectForm;
  label: string;
  /** The field with the name, and why that is invalid; "" if it is valid. */
  first: RefObject<HTMLInputElement>;
  nameProblem: string;
  /** The label of the submit button. */
  send: string;
  children: React.ReactNode;
}) {
  const { children, first, form, label, nameProblem, send } = props;
  const actions = useActions();
  const end = useRef<HTMLDivElement>(null);
  const alert = useRef<HTMLDivElement>(null);
  const seen = useRef(form.failure);
  useEffect(() => {
    if (form.failure && form.failure !== seen.current) {
      // In a part that was folded, the field is there only after another rendering. An error that is
      // about no single field has the focus itself.
      const focused = form.refused
        ? end.current
            ?.closest('form')
            ?.querySelector<HTMLElement>('[aria-invalid="true"]')
        : alert.current;
      if (focused) {
        seen.current = form.failure;
        focused.focus();
      }
    }
  });
  return (
    <PanelForm
      label={label}
      onSubmit={async () =>
        nameProblem ? first.current?.focus() : submit(actions, form)
      }
    >
      {children}
      <div ref={end} className="jp-tpu-Form-end">
        {form.failure && (
          <div ref={alert} tabIndex={-1}>
            <Alert {...failureText(form.failure)}>
              {form instanceof CreateForm && (
                <>
                  {form.failure.reason === 'NO_CAPACITY' && (
                    <NoCapacity form={form} />
                  )}
                  <CheckSetup form={form} />
                </>
              )}
            </Alert>
          </div>
        )}
        <div className="jp-tpu-Buttons">
          <TextButton main type="submit" disabled={form.submitting}>
            {send}
          </TextButton>
          <TextButton onClick={() => actions.view.show('list')}>
            {trans.__('Cancel')}
          </TextButton>
        </div>
      </div>
    </PanelForm>
  );
}

/** What else to try where Google has no capacity: all else of the form stays. */
function NoCapacity({ form }: { form: CreateForm }) {
  return (
    <>
      <OtherZones
        catalog={form.catalog}
        request={form.request}
        onPick={zone => form.set('zone', zone)}
      />
      <TextButton onClick={() => form.set('hunt', true)}>
        {trans.__('Try Until One Is Available')}
      </TextButton>
    </>
  );
}

/** The field for Python packages. */
export function packagesField<T extends { packages: string[] }>(
  more: Partial<IField<T>>
): IField<T> {
  return {
    name: 'packages',
    label: trans.__('Python packages'),
    help: trans.__('In addition to JAX, separated by commas, spaces or lines'),
    kind: 'area',
    typed: PACKAGES,
    ...more
  };
}
