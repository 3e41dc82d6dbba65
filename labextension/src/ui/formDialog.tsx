// Dialogs with a few fields.

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { ReactWidget } from '@jupyterlab/ui-components';
import React, { useState } from 'react';

import { trans } from './translation';

type Render<T> = (value: T, change: (more: Partial<T>) => void) => JSX.Element;

/** Shows a dialog with fields, and returns their values; null if it was cancelled. */
export async function ask<T>(
  title: string,
  accept: string,
  initial: T,
  render: Render<T>
): Promise<T | null> {
  const result = await showDialog({
    title,
    body: new Body(initial, render),
    focusNodeSelector: 'input',
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: accept })
    ]
  });
  return result.button.accept ? result.value : null;
}

class Body<T> extends ReactWidget implements Dialog.IBodyWidget<T> {
  constructor(
    private _value: T,
    private _fields: Render<T>
  ) {
    super();
    this.addClass('jp-tpu-Dialog');
  }

  getValue(): T {
    return this._value;
  }

  protected render(): JSX.Element {
    return (
      <Fields
        initial={this._value}
        render={this._fields}
        onChange={value => {
          this._value = value;
        }}
      />
    );
  }
}

function Fields<T>(props: {
  initial: T;
  render: Render<T>;
  onChange: (value: T) => void;
}): JSX.Element {
  const [value, setValue] = useState(props.initial);
  return props.render(value, more => {
    const now = { ...value, ...more };
    setValue(now);
    props.onChange(now);
  });
}
