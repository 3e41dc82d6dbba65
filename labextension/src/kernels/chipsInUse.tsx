// Asks what to do when a kernel can't start because the chips of its TPU are in use: in a dialog for the
// document in front, in a line at the top of any other.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { PathExt } from '@jupyterlab/coreutils';
import React from 'react';

import { problemLine } from '../language/text';
import { clock, trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { IKernel, ITPU } from '../rest/api';
import { choose } from '../ui/confirm';
import { INotificationAction } from '../ui/notify';
import { holderLabel, kernelName, kernelStateLabel } from './kernelLabels';
import { HeldStart } from './kernelStarts';
import { IKernelWidget, kernelWidgets } from './kernelWidget';
import { HeadLines, runsOn } from './notebookNotices';
import { IServerKernels } from './serverKernels';

/** What is known of a start that is held. */
interface IHolding {
  tpu: ITPU | undefined;
  /** The kernels that have the chips; []: something else has them. */
  holders: IKernel[];
}

export class ChipsInUse {
  constructor(
    private _shell: JupyterFrontEnd.IShell,
    private _model: TPUModel,
    private _serverKernels: IServerKernels
  ) {
    _model.stateChanged.connect(this._update, this);
  }

  /** A start is refused, perhaps not for the first time. */
  async ask(start: HeldStart): Promise<void> {
    const tpu = this._model.tpus.find(one => runsOn(start.kernel, one));
    const kernels = tpu ? await this._model.loadKernels(tpu) : null;
    const holders = (kernels ?? []).filter(
      kernel => kernel.state !== 'dead' && hasChips(kernel, start)
    );
    const holding = { tpu, holders };
    const widget = this._widgetOf(start);
    if (!widget || widget === this._shell.currentWidget) {
      const actions = this._actions(start, holding);
      const chosen = await choose(
        tpu
          ? trans.__('Start a kernel on %1', tpu.name)
          : trans.__('Start a kernel'),
        <>
          <p>{inUse(start, holding)}</p>
          {holders
            .filter(({ id }) => !this._serverKernels.has(id))
            .map(kernel => (
              <p key={kernel.id}>{holderLabel(kernel)}</p>
            ))}
          {holders.length > 0 && (
            <p>
              {trans.__(
                'If you shut down a kernel, its variables are lost. Its notebook is kept.'
              )}
            </p>
          )}
        </>,
        actions.map(({ label }) => label)
      );
      if (chosen !== null) {
        actions[chosen].callback();
        return;
      }
    }
    if (!start.isOver) {
      this._waiting.set(start, holding);
      this._update();
    }
  }

  /** The last is the most common. */
  private _actions(
    start: HeldStart,
    { holders, tpu }: IHolding
  ): { label: string; callback: () => void }[] {
    const act = (label: string, before?: () => Promise<unknown>) => ({
      label,
      callback: () => {
        this._waiting.delete(start);
        this._update();
        void (before?.() ?? Promise.resolve()).then(() => start.again());
      }
    });
    const isPod = tpu?.environments.some(
      ({ pod_kernelspec: spec }) => spec && isOfSpec(start.kernel, spec)
    );
    const withoutChips = {
      label: trans.__('Start Without Chips'),
      callback: () => {
        this._waiting.delete(start);
        this._update();
        void start.again(true);
      }
    };
    const here =
      tpu && holders.length > 0
        ? act(
            trans._n(
              'Shut It Down and Start Here',
              'Shut Them Down and Start Here',
              holders.length
            ),
            () =>
              Promise.all(
                holders.map(kernel => this._shutDown(tpu, kernel, start))
              )
          )
        : act(trans.__('Try Again'));
    return [...(isPod ? [] : [withoutChips]), here];
  }

  /** By its session, so that its notebook notices; a session that is to get the new kernel stays. */
  private async _shutDown(
    tpu: ITPU,
    { id }: IKernel,
    start: HeldStart
  ): Promise<void> {
    const own = this._widgetOf(start)?.sessionContext.session?.kernel?.id;
    if (id === own || !(await this._serverKernels.shutDown(id))) {
      await this._model.shutDownKernel(tpu, id);
    }
  }

  /** Shows the lines of the starts that wait, as things are now. */
  private _update(): void {
    this._lines.update(show => {
      for (const [start, { holders, tpu }] of [...this._waiting]) {
        const widget = this._widgetOf(start);
        if (start.isOver || !widget) {
          this._waiting.delete(start);
          continue;
        }
        const now = tpu ? this._model.kernels(tpu) : [];
        const left = now.filter(
          one => one.state !== 'dead' && holders.some(({ id }) => id === one.id)
        );
        const holding = { tpu, holders: left };
        if (tpu && holders.length > 0 && left.length === 0) {
          const started = () => {
            this._waiting.delete(start);
            this._update();
            void start.again();
          };
          show(widget, trans.__('The chips of %1 are free now.', tpu.name), [
            { label: trans.__('Start Kernel'), callback: started }
          ]);
        } else {
          const actions: INotificationAction[] = this._actions(start, holding);
          show(widget, inUse(start, holding), actions.reverse());
        }
      }
    });
  }

  private _widgetOf({ document }: HeldStart) {
    return kernelWidgets(this._shell).find(({ sessionContext }) =>
      'session' in document
        ? sessionContext.session?.id === document.session
        : isNamed(sessionContext, document)
    );
  }

  private _lines = new HeadLines();
  private _waiting = new Map<HeldStart, IHolding>();
}

function isNamed(
  { name, path }: IKernelWidget['sessionContext'],
  document: { folder: string; name: string }
): boolean {
  return name === document.name && PathExt.dirname(path) === document.folder;
}

/** Whether a kernelspec is one of *spec*: kernels with chips of their own have a longer name. */
function isOfSpec(name: string, spec: string): boolean {
  return `${name}-`.startsWith(`${spec}-`);
}

/** Whether a kernel has chips that a start needs. The server names the first one that does. */
function hasChips({ booked, chips, id }: IKernel, start: HeldStart): boolean {
  return start.refusal.hint.includes(id) || chips || booked.length > 0;
}

/** "my-tpu's chips are used by Untitled.ipynb (idle since 19:55)." */
function inUse({ refusal }: HeldStart, { holders, tpu }: IHolding): string {
  return tpu && holders.length > 0
    ? trans.__(
        '%1’s chips are used by %2.',
        tpu.name,
        holders.map(nameWithState).join(', ')
      )
    : problemLine(refusal);
}

function nameWithState(kernel: IKernel): string {
  const state =
    kernel.state === 'idle' && kernel.last_activity
      ? trans.__('idle since %1', clock(kernel.last_activity))
      : kernelStateLabel(kernel.state);
  return `${kernelName(kernel)} (${state})`;
}
