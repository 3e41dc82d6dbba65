// The fields of the form for a new TPU that works while nobody is there: what it runs, and when it stops.

import React, { useId, useRef } from 'react';

import { Actions } from '../actions/actions';
import { guardFieldList } from '../guard/guardFields';
import { guardLimits } from '../guard/guardLabels';
import { Disclosure } from '../ui/elements';
import { reportHalfTyped } from '../ui/field';
import { FormFields } from '../ui/fields';
import { useUnfolding } from '../ui/formPage';
import { useStore } from '../ui/store';
import { trans } from '../ui/translation';
import { CreateForm } from './createForm';

/** A command to type, so not translated. */
const COMMAND = 'python train.py';

const PART = 'form#unattended';

const FIELDS = ['thenRun', 'idle', 'cost', 'until', 'action'] as const;

export function UnattendedFields(props: { actions: Actions }): JSX.Element {
  const { createForm, view } = props.actions;
  const form = useStore(createForm);
  const { fields } = form;
  const content = useId();
  const part = useRef<HTMLDivElement>(null);
  const open = view.isOpen(PART);
  useUnfolding(form, FIELDS, () => view.open(PART));
  const limits = guardLimits(fields);
  const chosen = [...(fields.connect ? [fields.thenRun.trim()] : []), ...limits]
    .filter(Boolean)
    .join(' · ');
  return (
    <>
      <div>
        <Disclosure
          open={open}
          controls={content}
          onToggle={() => {
            // Half a limit would be none where nobody sees it.
            if (!part.current || !reportHalfTyped(part.current)) {
              view.toggle(PART);
            }
          }}
        >
          {trans.__('Run a command, stop automatically')}
        </Disclosure>
        {!open && chosen && <small className="jp-tpu-Chosen">{chosen}</small>}
      </div>
      {open && (
        <div id={content} ref={part} className="jp-tpu-Form-advanced">
          <FormFields
            form={form}
            fields={[
              {
                name: 'thenRun',
                label: trans.__('Command'),
                help: commandHelp(form),
                placeholder: COMMAND,
                disabled: !fields.connect
              }
            ]}
          />
          <FormFields
            form={form}
            fields={guardFieldList(fields, form.deletes)}
          />
        </div>
      )}
    </>
  );
}

/** When the command starts. What begins by itself is in the TPU's metadata, which others can read. */
function commandHelp(form: CreateForm): string {
  return form.unattended
    ? trans.__(
        'Starts as a job on all hosts, even while this computer is off. Others in the project can read it: do not enter secrets.'
      )
    : trans.__('Starts as a job on all hosts when it is connected.');
}
