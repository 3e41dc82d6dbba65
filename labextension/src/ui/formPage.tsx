// What the forms of the panel have in common.

import React, { RefObject, useEffect, useRef } from 'react';

import { useActions } from '../actions/useActions';
import { ConnectForm } from '../lifecycle/connectForm';
import { CreateForm } from '../lifecycle/createForm';
import { OtherZones } from '../lifecycle/otherZones';
import { Alert, TextButton } from './elements';
import { failureText } from './failures';
import { reportHalfTyped } from './field';
import { IField } from './fields';
import { trans } from './translation';

/** Checks what can keep a TPU from being created. */
export function CheckSetup({ form }: { form?: CreateForm }) {
  const actions = useActions();
  return (
    <TextButton onClick={() => void actions.checkSetup(form)}>
      {trans.__('Check Setup…')}
    </TextButton>
  );
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
  const node = useRef<HTMLFormElement>(null);
  const alert = useRef<HTMLDivElement>(null);
  const seen = useRef(form.failure);
  useEffect(() => {
    // In a part that was folded, the field is there only after another rendering.
    const marked =
      form.refused && form.failure !== seen.current
        ? node.current?.querySelector<HTMLElement>('[aria-invalid="true"]')
        : null;
    // An error that is about no single field has the focus itself.
    const focused =
      marked ??
      (form.failure && form.failure !== seen.current && !form.refused
        ? alert.current
        : null);
    if (focused) {
      seen.current = form.failure;
      focused.focus();
    }
  });
  return (
    <form
      ref={node}
      className="jp-tpu-Form"
      aria-label={label}
      noValidate
      onSubmit={event => {
        event.preventDefault();
        if (nameProblem) {
          first.current?.focus();
        } else if (!reportHalfTyped(event.currentTarget)) {
          void actions.submit(form);
        }
      }}
    >
      {children}
      <div className="jp-tpu-Form-end">
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
    </form>
  );
}

/** What else to try where Google has no capacity: all else of the form stays. */
function NoCapacity({ form }: { form: CreateForm }) {
  return (
    <>
      <OtherZones
        form={form}
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
export function packagesField<T extends { packages: string }>(
  more: Partial<IField<T>>
): IField<T> {
  return {
    name: 'packages',
    label: trans.__('Python packages'),
    help: trans.__('In addition to JAX, separated by commas, spaces or lines'),
    kind: 'area',
    ...more
  };
}
