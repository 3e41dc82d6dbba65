// What a tab shows of a job's output, which it follows.

import { MainAreaWidget } from '@jupyterlab/apputils';
import { HTMLSelect, ReactWidget } from '@jupyterlab/ui-components';
import { ReadonlyJSONObject } from '@lumino/coreutils';
import React, { useLayoutEffect, useRef } from 'react';

import { trans } from '../language/translation';
import { isOver } from '../model/jobs';
import { TPUModel } from '../model/model';
import { IJob, IJobLine } from '../rest/api';
import { failureText } from '../rest/failureText';
import { refOf } from '../rest/tpuRef';
import { Alert, StateLabel } from '../ui/elements';
import { createTab } from '../ui/tabs';
import { useStore } from '../ui/useStore';
import { JOB_TONES, jobState } from './jobLabels';
import { JobOutput } from './output';
import { visible } from './outputLines';

/** Pixels from the end within which the view follows the output. */
const NEAR = 40;

/** Which job a tab shows. */
export interface IJobTarget extends ReadonlyJSONObject {
  /** The TPU: zone/name. */
  readonly tpu: string;
  readonly job: string;
  readonly name: string;
}

/** The tab with the output of a job. */
export function jobTab(
  target: IJobTarget,
  model: TPUModel
): MainAreaWidget<JobLogView> {
  const { job, name, tpu } = target;
  return createTab(new JobLogView(target, model), {
    id: `jp-tpu-job-${job}`,
    label: name,
    caption: trans.__('Output of %1 on %2', name, tpu)
  });
}

export class JobLogView extends ReactWidget {
  constructor(
    readonly target: IJobTarget,
    private _model: TPUModel
  ) {
    super();
    const { job, tpu } = target;
    this._output = new JobOutput(_model.client, refOf(tpu), job);
    this.addClass('jp-tpu-JobLog');
  }

  dispose(): void {
    this._output.dispose();
    super.dispose();
  }

  protected render(): JSX.Element {
    return (
      <Log model={this._model} output={this._output} id={this.target.job} />
    );
  }

  private _output: JobOutput;
}

function Log(props: { model: TPUModel; output: JobOutput; id: string }) {
  const output = useStore(props.output);
  const job = useStore(props.model).allJobs.get(props.id);
  return (
    <>
      <Toolbar job={job} output={output} />
      {output.failure && (
        <Alert kind="warning" {...failureText(output.failure)} />
      )}
      <Lines output={output} over={!!job && isOver(job)} />
    </>
  );
}

function Toolbar(props: { job: IJob | undefined; output: JobOutput }) {
  const { job, output } = props;
  const { attempt, host } = output.part;
  const attempts = job?.attempts ?? [];
  const current = attempts[attempts.length - 1];
  const hosts = current?.hosts ?? [];
  return (
    <div className="jp-tpu-JobLog-bar" role="toolbar">
      {hosts.length > 1 && (
        <HTMLSelect
          aria-label={trans.__('Host')}
          value={host ?? hosts[0].host}
          onChange={event => output.show({ host: Number(event.target.value) })}
        >
          {hosts.map(one => (
            <option key={one.host} value={one.host}>
              {trans.__('Host %1', one.host)}
            </option>
          ))}
        </HTMLSelect>
      )}
      {attempts.length > 1 && (
        <HTMLSelect
          aria-label={trans.__('Attempt')}
          value={attempt ?? current.number}
          onChange={event =>
            output.show({ attempt: Number(event.target.value) })
          }
        >
          {attempts.map(({ number }) => (
            <option key={number} value={number}>
              {trans.__('Attempt %1', number)}
            </option>
          ))}
        </HTMLSelect>
      )}
      <input
        className="jp-mod-styled"
        type="search"
        aria-label={trans.__('Only lines with this text')}
        title={trans.__('Only lines with this text')}
        placeholder={trans.__('Search…')}
        onChange={({ target }) => output.showLater({ search: target.value })}
      />
      <input
        className="jp-mod-styled"
        type="number"
        min={1}
        aria-label={trans.__('Start at line')}
        title={trans.__('Start at line')}
        placeholder={trans.__('From line')}
        onChange={({ target }) =>
          output.showLater({ from: target.value ? +target.value : null })
        }
      />
      {job && (
        <StateLabel tone={JOB_TONES[job.state]}>{jobState(job)}</StateLabel>
      )}
    </div>
  );
}

function Lines({ output, over }: { output: JobOutput; over: boolean }) {
  const { isCut, lines, log, part } = output;
  const node = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    if (node.current && isAtEnd.current && part.from === null) {
      node.current.scrollTop = node.current.scrollHeight;
    }
  });
  const first = lines[0]?.number ?? 1;
  const dropped = log ? log.oldest - 1 : 0;
  const partial =
    part.search || isCut ? [] : [log?.partial_out, log?.partial_err];
  const isEmpty = !!log && lines.length === 0 && !partial.some(Boolean);
  return (
    <div
      ref={node}
      className="jp-tpu-JobLog-lines"
      role="log"
      aria-label={trans.__('Output')}
      tabIndex={0}
      onScroll={({ currentTarget: at }) => {
        const below = at.scrollHeight - at.scrollTop - at.clientHeight;
        isAtEnd.current = below < NEAR;
      }}
    >
      {dropped > 0 && first <= log!.oldest && (
        <p>
          {trans._n(
            'Line 1 was dropped to limit the size of the output.',
            'Lines 1–%1 were dropped to limit the size of the output.',
            dropped
          )}
        </p>
      )}
      {!part.search && part.from === null && first > (log?.oldest ?? 1) && (
        <p>
          {trans.__('The last lines. For earlier ones, enter a line number.')}
        </p>
      )}
      {isEmpty && (
        <p>
          {part.search && log.next > log.last
            ? trans.__('No line has this text.')
            : over
              ? trans.__('The job has printed nothing here.')
              : trans.__('Waiting for output…')}
        </p>
      )}
      {lines.map(line => (
        <Line key={line.number} line={line} />
      ))}
      {partial.map(
        (text, index) =>
          text && (
            <div key={-1 - index} className={index ? 'jp-mod-error' : ''}>
              {visible(text)}
            </div>
          )
      )}
      {isCut && (
        <p>{trans.__('More lines follow. Enter a later line number.')}</p>
      )}
    </div>
  );
}

const Line = React.memo((props: { line: IJobLine }): JSX.Element => {
  const { number, stream, text, time } = props.line;
  return (
    <div className={stream === 'err' ? 'jp-mod-error' : ''} title={time}>
      <span className="jp-tpu-JobLog-number" data-number={number} />
      {visible(text) || ' '}
    </div>
  );
});
Line.displayName = 'Line';
