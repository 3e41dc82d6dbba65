// A tab with the output of a command on hosts, as it comes.

import { MainAreaWidget, ToolbarButton } from '@jupyterlab/apputils';
import { stopIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

import { trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { IRun, IRunOutput } from '../rest/api';
import { Failure } from '../rest/failure';
import { failureLine } from '../rest/failureText';
import { TPURef } from '../rest/tpuRef';
import { element } from '../ui/element';
import { createTab } from '../ui/tabs';
import { OutputLines } from './outputLines';
import { runOutcomes, runTitle } from './runLabels';

/** Between two attempts to reach the Jupyter server; milliseconds. */
const PAUSE = 1000;
/** Elements that are kept: the last ones. */
const KEPT = 5000;

/** The output, and how it ended. Closing it stops the command. */
export class RunView extends Widget {
  constructor(
    readonly run: IRun,
    private _model: TPUModel
  ) {
    super();
    this._tpu = { name: run.tpu, zone: run.zone };
    this.addClass('jp-tpu-Run');
    this.node.append(this._output, this._status);
    this._showStatus(run);
    void this._follow();
  }

  dispose(): void {
    if (!this.isDisposed) {
      this._aborter.abort();
      if (!this._done) {
        void this.stop();
      }
      super.dispose();
    }
  }

  async stop(): Promise<void> {
    try {
      await this._model.client.runs.stop(this._tpu, this.run.id);
    } catch (error) {
      this._showFailure(error);
    }
  }

  private async _follow(): Promise<void> {
    const lines = new OutputLines(this.run.hosts.length > 1);
    let from = 0;
    try {
      while (!this.isDisposed) {
        const answer = await this._ask(from);
        if (answer.start > from) {
          this._append(trans.__('… the oldest output is gone …') + '\n');
        }
        from = answer.next;
        for (const part of answer.output) {
          this._append(lines.add(part), part.stream === 'stderr');
        }
        if (answer.ended) {
          this._append(lines.end());
          this._done = true;
        }
        this._showStatus(answer.run);
        if (answer.ended) {
          return;
        }
      }
    } catch (error) {
      this._done = true;
      this._showFailure(error);
    }
  }

  /** Asks for output, again while the Jupyter server can't be reached. */
  private async _ask(from: number): Promise<IRunOutput> {
    const { signal } = this._aborter;
    for (;;) {
      try {
        const { runs } = this._model.client;
        return await runs.output(this._tpu, this.run.id, { from }, signal);
      } catch (error) {
        if (signal.aborted || Failure.from(error).reason !== 'NETWORK') {
          throw error;
        }
        await new Promise(resolve => setTimeout(resolve, PAUSE));
      }
    }
  }

  private _append(text: string, isError = false): void {
    if (!text) {
      return;
    }
    const { scrollTop, scrollHeight, clientHeight } = this._output;
    const atEnd = scrollHeight - scrollTop - clientHeight < 20;
    const kind = { class: isError ? 'jp-mod-error' : '' };
    this._output.append(element('span', kind, text));
    while (this._output.childElementCount > KEPT) {
      this._output.firstElementChild?.remove();
    }
    if (atEnd) {
      this._output.scrollTop = this._output.scrollHeight;
    }
  }

  private _showStatus(run: IRun): void {
    this._status.textContent = runOutcomes(run).join('\n');
    const failed = run.hosts.every(host => host.code);
    this._status.dataset.state = failed ? 'failed' : run.state;
  }

  private _showFailure(error: unknown): void {
    if (!this._aborter.signal.aborted) {
      this._status.textContent = failureLine(error);
      this._status.dataset.state = 'failed';
    }
  }

  private _output = element('pre', {
    tabindex: '0',
    'aria-label': trans.__('Output')
  });
  private _status = element('div', { role: 'status' });
  private _tpu: TPURef;
  private _aborter = new AbortController();
  private _done = false;
}

/** The tab with the output of a command. */
export function runTab(run: IRun, model: TPUModel): MainAreaWidget<RunView> {
  const view = new RunView(run, model);
  const tab = createTab(view, {
    id: `jp-tpu-run-${run.id}`,
    label: runTitle(run),
    caption: trans.__('%1 on %2', runTitle(run), run.tpu)
  });
  tab.toolbar.addItem(
    'stop',
    new ToolbarButton({
      icon: stopIcon,
      label: trans.__('Stop'),
      tooltip: trans.__('Stop the command on all hosts'),
      onClick: () => void view.stop()
    })
  );
  return tab;
}
