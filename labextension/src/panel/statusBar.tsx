// The plugin for the status bar: the state of TPUs in a few words, or nothing.

/* eslint-disable jupyter/prefer-lazy-imports -- The status bar is there from the start. */

import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ReactWidget } from '@jupyterlab/ui-components';
import React from 'react';

import { CommandIDs } from '../actions/commandIDs';
import { Tone, trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { currentStep, operationTitle } from '../model/operationLabels';
import { failureText, isUnreachable } from '../rest/failureText';
import { ITPUModel } from '../tokens';
import { tpuIcon } from '../ui/icons';
import { StateLabel } from '../ui/stateLabel';
import { useStore } from '../ui/useStore';

export interface IStatus {
  text: string;
  caption: string;
  tone: Tone;
}

/** What the status bar says; null if there is nothing to say. */
export function statusOf(model: TPUModel): IStatus | null {
  const { operations, tpus } = model;
  // What is known is old by now, so nothing else is said.
  if (model.phase === 'ready' && isUnreachable(model.problem)) {
    return {
      text: trans.__('server not responding'),
      caption: failureText(model.problem).message,
      tone: 'quiet'
    };
  }
  const stuck = tpus.find(tpu => tpu.connection === 'needs-attention');
  if (stuck) {
    return {
      text: trans.__('%1 needs attention', model.nameOf(stuck)),
      caption: stuck.problem?.message ?? '',
      tone: 'bad'
    };
  }
  const running = operations.find(operation => operation.state === 'running');
  if (running) {
    const title = operationTitle(running);
    return {
      text:
        running.progress === null
          ? title
          : `${title} ${Math.round(running.progress * 100)} %`,
      caption: currentStep(running),
      tone: 'moving'
    };
  }
  const lost = tpus.find(tpu => tpu.connection === 'reconnecting');
  if (lost) {
    return {
      text: trans.__('%1 is reconnecting', model.nameOf(lost)),
      caption: lost.problem?.message ?? '',
      tone: 'moving'
    };
  }
  const ready = tpus.filter(tpu => tpu.connection === 'connected');
  if (ready.length === 0) {
    return null;
  }
  return {
    text:
      ready.length === 1
        ? trans.__('%1 connected', model.nameOf(ready[0]))
        : trans._n('%1 TPU connected', '%1 TPUs connected', ready.length),
    caption: ready.map(tpu => model.nameOf(tpu)).join(', '),
    tone: 'good'
  };
}

export class StatusItem extends ReactWidget {
  constructor(
    private _model: TPUModel,
    private _open: () => void
  ) {
    super();
    this.addClass('jp-tpu-Status');
  }

  protected render(): JSX.Element {
    return <Status model={this._model} onClick={this._open} />;
  }
}

function Status(props: { model: TPUModel; onClick: () => void }) {
  const model = useStore(props.model);
  const status = statusOf(model);
  return (
    status && (
      <button
        type="button"
        className={status.tone === 'quiet' ? 'jp-mod-away' : undefined}
        title={status.caption}
        onClick={props.onClick}
      >
        <tpuIcon.react tag="span" elementSize="normal" />
        <StateLabel tone={status.tone}>
          {trans.__('TPU: %1', status.text)}
        </StateLabel>
      </button>
    )
  );
}

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-tpu:status-bar',
  description: 'Shows the state of TPUs in the status bar.',
  autoStart: true,
  requires: [ITPUModel],
  optional: [IStatusBar],
  activate: (
    app: JupyterFrontEnd,
    model: TPUModel,
    statusBar: IStatusBar | null
  ) => {
    const { commands } = app;
    const open = () => {
      if (commands.hasCommand(CommandIDs.open)) {
        void commands.execute(CommandIDs.open);
      }
    };
    statusBar?.registerStatusItem(plugin.id, {
      align: 'left',
      rank: 90,
      item: new StatusItem(model, open),
      isActive: () => statusOf(model) !== null,
      activeStateChanged: model.stateChanged
    });
  }
};

export default plugin;
