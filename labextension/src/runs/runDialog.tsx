// The dialog that asks for a command to run on hosts.

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import React, { useState } from 'react';

import { IStartRun, ITPU } from '../api';
import { Field } from '../panel/field';

/** Seconds after which the server stops a command whose tab is gone. */
const UNWATCHED = 60;

interface IRunInput {
  command: string;
  hosts: string;
  cwd: string;
}

/** Asks for a command of the shell, its folder, and the hosts where there are several. */
export async function askRun(
  tpu: ITPU,
  trans: TranslationBundle
): Promise<IStartRun | null> {
  const result = await showDialog({
    title: trans.__('Run a Command on %1', tpu.name),
    body: new RunBody(tpu, trans),
    focusNodeSelector: 'input',
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: trans.__('Run') })
    ]
  });
  const input = result.button.accept ? result.value : null;
  if (!input || !input.command.trim()) {
    return null;
  }
  return {
    command: ['sh', '-c', input.command],
    hosts: input.hosts.trim() || 'all',
    cwd: input.cwd.trim(),
    stop_unwatched: UNWATCHED
  };
}

class RunBody extends ReactWidget implements Dialog.IBodyWidget<IRunInput> {
  constructor(
    private _tpu: ITPU,
    private _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-tpu-Dialog');
  }

  getValue(): IRunInput {
    return this._input;
  }

  protected render(): JSX.Element {
    return (
      <RunFields
        input={this._input}
        tpu={this._tpu}
        trans={this._trans}
        onChange={input => {
          this._input = input;
        }}
      />
    );
  }

  private _input: IRunInput = { command: '', hosts: 'all', cwd: '' };
}

function RunFields(props: {
  input: IRunInput;
  tpu: ITPU;
  trans: TranslationBundle;
  onChange: (input: IRunInput) => void;
}): JSX.Element {
  const { tpu, trans } = props;
  const [input, setInput] = useState(props.input);
  const field = (
    name: keyof IRunInput,
    label: string,
    help?: string,
    required = false
  ) => (
    <Field label={label} help={help}>
      {attributes => (
        // JupyterLab disables the dialog's button while a field is invalid.
        <input
          {...attributes}
          className="jp-mod-styled"
          required={required}
          spellCheck={false}
          value={input[name]}
          onChange={event => {
            const now = { ...input, [name]: event.target.value };
            setInput(now);
            props.onChange(now);
          }}
        />
      )}
    </Field>
  );
  return (
    <>
      {field(
        'command',
        trans.__('Command'),
        trans.__('A command of the shell, such as pip list | grep jax'),
        true
      )}
      {tpu.hosts.length > 1 &&
        field('hosts', trans.__('Hosts'), trans.__('all, 0, or 0,2-5'))}
      {field(
        'cwd',
        trans.__('Folder on the hosts (optional)'),
        trans.__('Empty: the home folder')
      )}
    </>
  );
}
