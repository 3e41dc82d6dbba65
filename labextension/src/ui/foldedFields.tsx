// Fields of a form that are folded until the user wants them, or the server refuses one of them.

import React, { useEffect, useId, useRef } from 'react';

import { Disclosure } from './elements';
import { reportHalfTyped } from './field';
import { FieldList, FormFields, namesOf } from './fields';
import { Form } from './form';
import { useStore } from './useStore';
import { useView } from './useView';

export function FoldedFields<F extends object>(props: {
  form: Form<F>;
  /** Where the view keeps whether they are shown. */
  part: string;
  label: string;
  fields: FieldList<F>;
  /** What is chosen in them, to be said while they are folded. */
  chosen?: string;
}) {
  const { chosen, fields, form, label, part } = props;
  const view = useStore(useView());
  const content = useId();
  const node = useRef<HTMLDivElement>(null);
  const open = view.isOpen(part);
  useEffect(() => {
    if (form.refused !== null && namesOf(fields).includes(form.refused)) {
      view.open(part);
    }
  }, [form.failure]);
  return (
    <>
      <div>
        <Disclosure
          open={open}
          controls={content}
          onToggle={() => {
            // Half a number would be none where nobody sees it.
            if (!node.current || !reportHalfTyped(node.current)) {
              view.toggle(part);
            }
          }}
        >
          {label}
        </Disclosure>
        {!open && chosen && <small className="jp-tpu-Chosen">{chosen}</small>}
      </div>
      {open && (
        <div id={content} ref={node} className="jp-tpu-Form-advanced">
          <FormFields form={form} fields={fields} />
        </div>
      )}
    </>
  );
}
