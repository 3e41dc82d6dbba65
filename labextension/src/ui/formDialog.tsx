// Dialogs with fields: they stay open, with their input, until what they ask for was accepted.

import { Dialog } from '@jupyterlab/apputils';
import { ReactWidget } from '@jupyterlab/ui-components';
import React, { useEffect, useId, useRef, useState } from 'react';

import { trans } from '../language/translation';
import { failureText } from '../rest/failureText';
import { Alert, Disclosure } from './elements';
import { reportHalfTyped } from './field';
import { FieldList, FormFields, IField, IFieldForm, namesOf } from './fields';
import { Form } from './form';
import { paths } from './paths';
import { useStore } from './useStore';

export interface IQuestion<T extends object> {
  title: string;
  /** The label of the button that does it. */
  accept: string;
  initial: T;
  /** What is asked, which may depend on what was answered so far. */
  fields: (value: T) => FieldList<T>;
  /** What few need: folded, until it is wanted or refused. */
  rare?: (value: T) => FieldList<T>;
  /** Does it. What it throws is shown in the dialog, and the user can try again. */
  submit?: (value: T) => Promise<unknown>;
}

/** Shows a dialog with fields, and returns their values; null if it was cancelled. */
export async function ask<T extends object>(
  question: IQuestion<T>
): Promise<T | null> {
  // eslint-disable-next-line jupyter/require-disposable-ownership -- It is disposed of below.
  const answer = new Answer(question.initial);
  try {
    for (;;) {
      const dialog = new QuestionDialog(question, answer);
      const { button } = await dialog.launch();
      const field = answer.browsed;
      if (!field) {
        return button.accept ? answer.fields : null;
      }
      // One dialog at a time: this one comes back with its input.
      answer.browsed = null;
      const path = await paths.pick!(field.label, field.place ?? {});
      if (path !== null) {
        answer.set(field.name, path as T[keyof T & string]);
      }
    }
  } finally {
    answer.dispose();
  }
}

/** What was entered so far. */
class Answer<T extends object> extends Form<T> {
  /** The path that the user wants to look up. */
  browsed: IField<T> | null = null;

  protected edited(): void {
    this.failure = null;
  }
}

class QuestionDialog<T extends object> extends Dialog<unknown> {
  constructor(
    private _question: IQuestion<T>,
    private _answer: Answer<T>
  ) {
    super({
      title: _question.title,
      body: ReactWidget.create(
        <Body
          question={_question}
          answer={_answer}
          onBrowse={field => {
            _answer.browsed = field;
            this.reject();
          }}
        />
      ),
      focusNodeSelector: 'input, select, textarea',
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.okButton({ label: _question.accept })
      ]
    });
    this.addClass('jp-tpu-QuestionDialog');
  }

  resolve(index = 1): void {
    const { submit } = this._question;
    if (index === 0 || !submit) {
      super.resolve(index);
      return;
    }
    const answer = this._answer;
    void answer.send(async () => {
      await submit(answer.fields);
      super.resolve(index);
    });
  }
}

function Body<T extends object>(props: {
  question: IQuestion<T>;
  answer: Answer<T>;
  onBrowse: (field: IField<T>) => void;
}) {
  const { onBrowse, question } = props;
  const answer = useStore(props.answer);
  // Rendered at once also before the store is followed: what is typed must not be taken back.
  const [, setFields] = useState(answer.fields);
  const [open, setOpen] = useState(false);
  const folded = useId();
  const rare = question.rare?.(answer.fields);
  const node = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const { refused } = answer;
    if (rare && refused !== null && namesOf(rare).includes(refused)) {
      setOpen(true);
    }
  }, [answer.failure]);
  const form: IFieldForm<T> = {
    fields: answer.fields,
    problemOf: name => answer.problemOf(name),
    set: (name, value) => {
      answer.set(name, value);
      setFields(answer.fields);
    }
  };
  return (
    <div className="jp-tpu-Dialog" aria-busy={answer.submitting}>
      <FormFields
        form={form}
        fields={question.fields(answer.fields)}
        onBrowse={paths.pick ? onBrowse : undefined}
      />
      {rare && (
        <Disclosure
          open={open}
          controls={folded}
          onToggle={() => {
            // Half a number would be none where nobody sees it.
            if (!node.current || !reportHalfTyped(node.current)) {
              setOpen(!open);
            }
          }}
        >
          {trans.__('More options')}
        </Disclosure>
      )}
      {rare && open && (
        <div id={folded} ref={node}>
          <FormFields
            form={form}
            fields={rare}
            onBrowse={paths.pick ? onBrowse : undefined}
          />
        </div>
      )}
      {answer.failure && <Alert {...failureText(answer.failure)} />}
    </div>
  );
}
