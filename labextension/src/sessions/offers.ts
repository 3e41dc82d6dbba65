// Lines in notebooks: that variables of the notebook were saved and can be restored, that a cell was
// interrupted and can be run again from there, and what was restored.

import { JupyterFrontEnd } from '@jupyterlab/application';

import { IPanelActions } from '../actions/panelActions';
import { findDocument, kernelWidgets } from '../kernels/kernelWidget';
import { HeadLines } from '../kernels/notebookNotices';
import { joined } from '../language/text';
import { clock, trans } from '../language/translation';
import { startableEnvironments } from '../model/availableActions';
import { ISession, ITPU } from '../rest/api';
import { StoredIds } from '../state/storedIds';
import { attempt } from '../ui/attempt';
import { INotificationAction } from '../ui/notify';
import { continueFrom, tpuOf } from './continueOn';
import { KernelDocument, restore, restoreInNewKernel } from './moves';
import { originLabel, restoredText } from './sessionLabels';

const RUN_CELL = 'notebook:run-cell';

/** A notebook's cells, as far as one of them is to be run. */
interface ICells {
  content?: {
    widgets?: readonly { model: { id: string } }[];
    activeCellIndex: number;
  };
}

/** What a session can be put into from a document, and whether that is its kernel of now. */
type Way =
  | { into: 'kernel'; tpu: ITPU; kernel: string }
  | { into: 'new'; tpu: ITPU; kernel: string }
  | { into: 'other' };

export class SessionOffers {
  /** *declined*: what the user does not want to restore, in this browser. */
  constructor(
    private _app: JupyterFrontEnd,
    private _actions: IPanelActions,
    private _declined: StoredIds
  ) {
    const { model } = _actions;
    model.unlistedChanged.connect((_, { gone, id, session, what }) => {
      if (what === 'session') {
        this._sessions.delete(id);
        if (session && !gone) {
          this._sessions.set(id, session);
        }
        this.update();
      }
    });
    model.stateChanged.connect(this.update, this);
    _app.shell.currentChanged?.connect(this.update, this); // another notebook may be open
    void model.client.sessions.all().then(
      sessions => {
        sessions.forEach(one => this._sessions.set(one.id, one));
        this.update();
      },
      () => undefined // events say what changes from now on
    );
  }

  /** Shows in a document what was restored, until the user has read it. */
  say(document: KernelDocument, text: string | null): void {
    if (text) {
      const kernel = aliveKernel(document)?.id ?? '';
      const [session] = this._sessionsOf(document);
      this._restored.set(document, `${kernel} ${session?.id}`);
      this._said.set(document, text);
      document.disposed.connect(() => this._said.delete(document));
      this.update();
    }
  }

  update(): void {
    this._lines.update(show => {
      for (const widget of kernelWidgets(this._app.shell)) {
        const document = widget as KernelDocument;
        const text = this._said.get(document);
        if (text) {
          const close = () => {
            this._said.delete(document);
            this.update();
          };
          show(document, text, [
            { label: trans.__('Dismiss'), callback: close }
          ]);
        } else {
          const session = this._offerFor(document);
          const way = session && this._wayFor(document, session);
          if (way) {
            show(
              document,
              offerText(session),
              this._actionsFor(document, session, way)
            );
          }
        }
      }
    });
  }

  /** The newest session of a document that its kernel does not have. */
  private _offerFor(document: KernelDocument): ISession | undefined {
    const kernel = aliveKernel(document)?.id;
    const [newest] = this._sessionsOf(document);
    if (!newest) {
      return undefined;
    }
    // On its host's disk and on this computer it is the same.
    const same = this._sessionsOf(document).filter(
      ({ name, saved }) => name === newest.name && saved === newest.saved
    );
    if (same.some(one => this._declined.has(keyOfSave(one)))) {
      return undefined;
    }
    const restored = this._restored.get(document);
    const has =
      same.some(({ id }) => restored === `${kernel} ${id}`) ||
      (kernel === newest.kernel && !newest.interrupted);
    return has
      ? undefined
      : (same.find(one => this._wayFor(document, one)) ?? newest);
  }

  /** Those that can be restored, the newest first. */
  private _sessionsOf(document: KernelDocument): ISession[] {
    const { shell } = this._app;
    return [...this._sessions.values()]
      .filter(
        ({ notebook, problem }) =>
          !problem && notebook && findDocument(shell, notebook) === document
      )
      .sort(
        (a, b) =>
          b.saved.localeCompare(a.saved) || a.place.localeCompare(b.place)
      );
  }

  private _wayFor(document: KernelDocument, session: ISession): Way | null {
    const { model } = this._actions;
    const kernel = aliveKernel(document);
    const home = model.tpuOf(session);
    if (kernel) {
      const tpu = tpuOf(document, model.tpus);
      const reached = tpu && (session.place || tpu === home);
      return reached ? { into: 'kernel', tpu, kernel: kernel.id } : null;
    }
    const environment = home && startableEnvironments(home)[0];
    if (environment) {
      const { kernelspec } = environment;
      return { into: 'new', tpu: home, kernel: kernelspec };
    }
    return session.place ? { into: 'other' } : null;
  }

  private _actionsFor(
    document: KernelDocument,
    session: ISession,
    way: Way
  ): INotificationAction[] {
    const cell = session.interrupted?.cell;
    const again = !!cell && indexOf(document, cell) >= 0;
    const act = (begin: () => Promise<string | null>) => () =>
      attempt(
        begin().then(text => {
          if (text) {
            this.say(document, text);
            if (again) {
              this._run(document, cell);
            }
          }
        })
      );
    const elsewhere = {
      label: trans.__('Continue on…'),
      callback: act(() => continueFrom(session, document, this._actions))
    };
    const here = way.into !== 'other' && {
      label: again
        ? trans.__('Run Again from the Last Save')
        : way.into === 'new'
          ? trans.__('Restore in a New Kernel')
          : trans.__('Restore'),
      callback: act(() => this._restore(document, session, way))
    };
    const decline = {
      label: trans.__('Dismiss'),
      callback: () => {
        this._decline(session);
        this.update();
      }
    };
    const other = !here || (way.into === 'new' && session.place);
    return [...(here ? [here] : []), ...(other ? [elsewhere] : []), decline];
  }

  private async _restore(
    document: KernelDocument,
    session: ISession,
    way: Exclude<Way, { into: 'other' }>
  ): Promise<string | null> {
    const { model } = this._actions;
    const outcome =
      way.into === 'kernel'
        ? await restore(model, way.tpu, session.id, way.kernel)
        : await restoreInNewKernel(model, document, way, session.id);
    return outcome && restoredText(outcome, session);
  }

  /** Runs the cell that was interrupted, which the user sees. */
  private _run(document: KernelDocument, cell: string): void {
    const { content } = document as ICells;
    content!.activeCellIndex = indexOf(document, cell);
    this._app.shell.activateById(document.id);
    void attempt(this._app.commands.execute(RUN_CELL));
  }

  private _decline(session: ISession): void {
    this._declined.add(keyOfSave(session));
  }

  private _lines = new HeadLines();
  /** The kernel and the session that were last brought together in a document. */
  private _restored = new WeakMap<KernelDocument, string>();
  private _said = new Map<KernelDocument, string>();
  private _sessions = new Map<string, ISession>();
}

/** One save of a session, and one end of its kernel. */
function keyOfSave({ id, interrupted, saved }: ISession): string {
  return `${id} ${saved} ${interrupted?.ended ?? ''}`;
}

function aliveKernel({ sessionContext }: KernelDocument) {
  const kernel = sessionContext.session?.kernel;
  return kernel && kernel.status !== 'dead' ? kernel : null;
}

function indexOf(document: KernelDocument, cell: string): number {
  const { content } = document as ICells;
  return content?.widgets?.findIndex(({ model }) => model.id === cell) ?? -1;
}

function offerText(session: ISession): string {
  const { interrupted, saved } = session;
  return joined(
    ' ',
    interrupted &&
      trans.__('A cell was interrupted at %1.', clock(interrupted.ended)),
    interrupted?.why,
    trans.__(
      'The variables of this notebook were saved at %1 on %2.',
      clock(saved),
      originLabel(session)
    )
  );
}
