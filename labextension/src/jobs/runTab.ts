// A tab with the output of a command on hosts, as it comes.

import { MainAreaWidget, ToolbarButton } from '@jupyterlab/apputils';
import { stopIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

import { TPUModel } from '../model/model';
import { TPURef } from '../model/resources';
import { IRun, IRunOutput } from '../rest/api';
import { Failure } from '../rest/failure';
import { failureLine } from '../ui/failures';
import { tpuIcon } from '../ui/icons';
import { trans } from '../ui/translation';
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
    this.addClass('jp-tpu-Run');
    this._status.setAttribute('role', 'status');
    this._output.tabIndex = 0;
    this._output.setAttribute('aria-label', trans.__('Output'));
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
    const { run } = this;
    try {
      await this._model.client.runs.stop(
        { name: run.tpu, zone: run.zone },
        run.id
      );
    } catch (error) {
      this._showFailure(error);
    }
  }

  private async _follow(): Promise<void> {
    const { run } = this;
    const tpu = { name: run.tpu, zone: run.zone };
    const lines = new OutputLines(run.hosts.length > 1);
    let from = 0;
    try {
      while (!this.isDisposed) {
        const answer = await this._ask(tpu, from);
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
  private async _ask(tpu: TPURef, from: number): Promise<IRunOutput> {
    const { signal } = this._aborter;
    for (;;) {
      try {
        return await this._model.client.runs.output(
          tpu,
          this.run.id,
          { from },
          signal
        );
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
    const piece = document.createElement('span');
    piece.textContent = text;
    piece.classList.toggle('jp-mod-error', isError);
    this._output.append(piece);
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

  private _output = document.createElement('pre');
  private _status = document.createElement('div');
  private _aborter = new AbortController();
  private _done = false;
}

export class RunTab extends MainAreaWidget<RunView> {
  constructor(run: IRun, model: TPUModel) {
    super({ content: new RunView(run, model) });
    this.id = `jp-tpu-run-${run.id}`;
    this.title.label = runTitle(run);
    this.title.caption = trans.__('%1 on %2', runTitle(run), run.tpu);
    this.title.icon = tpuIcon;
    this.title.closable = true;
    this.toolbar.addItem(
      'stop',
      new ToolbarButton({
        icon: stopIcon,
        label: trans.__('Stop'),
        tooltip: trans.__('Stop the command on all hosts'),
        onClick: () => void this.content.stop()
      })
    );
  }
}
