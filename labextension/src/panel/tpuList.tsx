// The rows of TPUs in the sidebar: which are shown, and where the focus goes.

import React, { RefObject, useEffect, useRef, useState } from 'react';

import { useActions } from '../actions/useActions';
import { isIdle } from '../chips/loadLabels';
import { facts } from '../language/text';
import { trans } from '../language/translation';
import { tpuStatus } from '../model/tpuLabels';
import { ITPU } from '../rest/api';
import { keyOf } from '../rest/tpuRef';
import { TPU } from './tpu';

/** So many are found at a glance; above that there is a field to search in. */
const FILTERED_ABOVE = 10;

export function TPUList({ tpus }: { tpus: ITPU[] }) {
  const actions = useActions();
  const { model } = actions;
  const [query, setQuery] = useState('');
  const words = query.toLowerCase().split(/\s+/);
  const many = tpus.length > FILTERED_ABOVE;
  const shown =
    many && query
      ? tpus.filter(tpu => {
          const { label } = tpuStatus(tpu);
          const idle = isIdle(actions.loads.of(tpu)?.load) && trans.__('idle');
          const text = facts(tpu.name, tpu.type, tpu.zone, label, idle);
          return words.every(word => text.toLowerCase().includes(word));
        })
      : tpus;
  return (
    <>
      {many && (
        <div className="jp-tpu-Filter">
          <input
            type="search"
            className="jp-mod-styled"
            aria-label={trans.__('Filter TPUs')}
            placeholder={trans.__('Filter: name, type, zone or state')}
            spellCheck={false}
            value={query}
            onChange={event => setQuery(event.target.value)}
          />
        </div>
      )}
      <ul className="jp-tpu-List" aria-label={trans.__('TPUs')}>
        {shown.map(tpu => (
          <TPU
            key={keyOf(tpu)}
            tpu={tpu}
            name={model.nameOf(tpu)}
            able={actions.available(tpu)}
            marked={tpu.emulated && !model.catalog?.emulated}
          />
        ))}
      </ul>
      {shown.length === 0 && (
        <p className="jp-tpu-Filter-none" role="status">
          {trans.__('No TPU matches.')}
        </p>
      )}
    </>
  );
}

/**
 * Moves the focus to the row of what was created, or to its hunt; from a row that is gone to what says
 * why, or to its neighbor.
 */
export function useFocus(list: RefObject<HTMLDivElement>, shown: string): void {
  const { view } = useActions();
  const focused = useRef({ row: -1, tpu: '' });
  useEffect(() => {
    const rows = [
      ...(list.current?.querySelectorAll<HTMLElement>('.jp-tpu-TPU') ?? [])
    ];
    const operations = [
      ...(list.current?.querySelectorAll<HTMLElement>('[data-kind]') ?? [])
    ];
    const hunts = operations.filter(one => one.dataset.kind === 'hunt');
    const failed = operations.filter(one =>
      one.classList.contains('jp-mod-failed')
    );
    const { row, tpu } = focused.current;
    const focus = (row: HTMLElement | undefined) => {
      const first =
        row?.querySelector<HTMLElement>('.jp-tpu-Alert button') ??
        row?.querySelector('button');
      first?.focus();
      row?.scrollIntoView?.({ block: 'nearest' });
    };
    const awaited = [...rows, ...hunts].find(
      row => row.dataset.tpu === view.awaited
    );
    const { activeElement } = document;
    const lost = activeElement === document.body || activeElement === null;
    if (awaited) {
      view.awaited = '';
      focus(awaited);
    } else if (lost && row >= 0) {
      focus(
        failed.find(one => one.dataset.tpu === tpu) ??
          rows[Math.min(row, rows.length - 1)]
      );
    }
    const now = rows.findIndex(one => one.contains(document.activeElement));
    focused.current = { row: now, tpu: rows[now]?.dataset.tpu ?? '' };
  }, [shown]);
}
