// The packages of an environment: a list, and a form that adds some.

import React, { useEffect } from 'react';

import { useActions } from '../actions/useActions';
import { trans } from '../language/translation';
import { isBusy } from '../model/availableActions';
import { Operation, OperationDetails } from '../operations/operationView';
import { IInstalledPackage } from '../rest/api';
import { failureText } from '../rest/failureText';
import { Alert, EmptyState, TextButton } from '../ui/elements';
import { FormFields } from '../ui/fields';
import { Listed, PanelForm, Rows } from '../ui/listed';
import { Row } from '../ui/rows';
import { useStore } from '../ui/useStore';
import { PackagesForm } from './packagesForm';

/** Names, so not translated. */
const EXAMPLE = 'einops, flax>=0.10';

export function PackagesPage() {
  const actions = useActions();
  const { model } = actions;
  const form = useStore(actions.forms.of(PackagesForm));
  const { environment, operation, problem, tpu } = form;
  const failed = operation?.state === 'failed' ? operation.id : '';
  useEffect(() => {
    if (failed) {
      model.dismiss(failed); // it is shown here
    }
  }, [failed, model]);
  if (!tpu || !environment) {
    return <EmptyState title={trans.__('This environment was removed')} />;
  }
  const running = model.runningOn(tpu);
  const busy = form.submitting || isBusy(running);
  return (
    <PanelForm
      label={trans.__('Packages of %1', environment.name)}
      onSubmit={() => form.submit()}
    >
      <p>
        {trans.__(
          'Changes are made on all hosts of %1. Running kernels can use new packages at once.',
          tpu.name
        )}
      </p>
      <FormFields
        form={form}
        fields={[
          {
            name: 'add',
            label: trans.__('Add packages'),
            help: trans.__('Separated by commas, spaces or lines'),
            kind: 'area',
            rows: 2,
            placeholder: EXAMPLE
          }
        ]}
      />
      <div className="jp-tpu-Buttons">
        <TextButton
          main
          type="submit"
          disabled={busy || !form.fields.add.trim()}
        >
          {trans.__('Add')}
        </TextButton>
      </div>
      {problem && (
        <Alert {...failureText(problem)}>
          {operation && failed && <OperationDetails operation={operation} />}
        </Alert>
      )}
      {running.map(one => (
        <Operation key={one.id} operation={one} />
      ))}
      <Installed busy={busy} />
    </PanelForm>
  );
}

function Installed({ busy }: { busy: boolean }) {
  const form = useActions().forms.of(PackagesForm);
  const { filtered } = form;
  const added = filtered.filter(one => one.requested);
  const others = filtered.filter(one => !one.requested);
  return (
    <Listed
      list={form.list}
      items={form.list.value}
      loading={trans.__('Loading packages…')}
    >
      {packages => (
        <>
          <FormFields
            form={form}
            fields={[
              {
                name: 'filter',
                label: trans.__('Installed'),
                kind: 'search',
                placeholder: trans._n(
                  'Filter %1 package',
                  'Filter %1 packages',
                  packages.length
                )
              }
            ]}
          />
          {filtered.length === 0 && (
            <p role="status">{trans.__('No package matches the filter.')}</p>
          )}
          <List title={trans.__('Added')} packages={added} busy={busy} />
          <List
            title={trans.__('Also installed')}
            packages={others}
            busy={busy}
          />
        </>
      )}
    </Listed>
  );
}

function List(props: {
  busy: boolean;
  title: string;
  packages: IInstalledPackage[];
}) {
  const { busy, packages, title } = props;
  const form = useActions().forms.of(PackagesForm);
  if (packages.length === 0) {
    return null;
  }
  return (
    <Rows title={title} count={packages.length}>
      {packages.map(({ name, requested, required, version }) => (
        <Row
          key={name}
          name={name}
          title={`${name} ${version}`}
          buttons={
            <span className="jp-tpu-Packages-version" title={version}>
              {version}
            </span>
          }
          remove={
            requested
              ? {
                  label: required
                    ? trans.__('Kernels on TPUs need %1', name)
                    : trans.__('Remove %1', name),
                  disabled: busy || required,
                  run: () => form.remove(name)
                }
              : undefined
          }
        />
      ))}
    </Rows>
  );
}
