// The field for a TPU's type: a search over the catalog, grouped by generation.

import { caretDownEmptyIcon } from '@jupyterlab/ui-components';
import React, { useEffect, useId, useRef, useState } from 'react';

import { trans } from '../language/translation';
import { IAcceleratorType } from '../rest/api';

type Groups = [string, IAcceleratorType[]][];

/**
 * The types that have each word of *query* in their name, generation or meaning: its beginning, or
 * the whole of a number.
 */
export function matchingTypes(groups: Groups, query: string): Groups {
  const words = (query.toLowerCase().match(/[-\w]+/g) ?? []).map(
    word => new RegExp(/^\d+$/.test(word) ? `\\b${word}\\b` : `\\b${word}`)
  );
  return groups
    .map(([generation, types]): Groups[number] => [
      generation,
      types.filter(({ name, meaning }) => {
        const text = `${name} ${generation} ${meaning}`.toLowerCase();
        return words.every(word => word.test(text));
      })
    ])
    .filter(([, types]) => types.length > 0);
}

export function TypePicker(props: {
  /** The attributes of the input, from its `Field`. */
  attributes: React.InputHTMLAttributes<HTMLInputElement>;
  groups: Groups;
  value: string;
  /** What a type costs, in a word or two; "" where that is not known. */
  price: (type: IAcceleratorType) => string;
  onPick: (type: string) => void;
}) {
  const { attributes, groups, onPick, price, value } = props;
  const id = useId();
  const [open, setOpen] = useState(false);
  /** What is typed; null until then. */
  const [query, setQuery] = useState<string | null>(null);
  const [active, setActive] = useState(value);
  const shown = matchingTypes(groups, query ?? '');
  const names = shown.flatMap(([, types]) => types.map(({ name }) => name));
  const current = names.includes(active) ? active : names[0];

  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const option = list.current?.querySelector<HTMLElement>(
      '[aria-selected=true]'
    );
    if (list.current && option) {
      const middle = (list.current.clientHeight - option.clientHeight) / 2;
      list.current.scrollTop = option.offsetTop - middle;
    }
  }, [open, current]);

  const close = () => {
    setOpen(false);
    setQuery(null);
  };
  const pick = (name: string) => {
    onPick(name);
    close();
  };
  const show = () => {
    if (!open) {
      setActive(value);
      setOpen(true);
    }
  };
  const move = (step: number) => {
    const last = names.length - 1;
    const next = names.indexOf(current) + (open ? step : 0);
    show();
    setActive(names[Math.max(0, Math.min(last, next))] ?? '');
  };
  const onKeyDown = (event: React.KeyboardEvent) => {
    const act = {
      ArrowDown: () => move(1),
      ArrowUp: () => move(-1),
      Enter: open && current ? () => pick(current) : undefined,
      Escape: open ? close : undefined
    }[event.key];
    if (act) {
      event.preventDefault();
      event.stopPropagation();
      act();
    }
  };
  return (
    <>
      <div className="jp-HTMLSelect">
        <input
          {...attributes}
          className="jp-mod-styled"
          role="combobox"
          aria-autocomplete="list"
          aria-expanded={open}
          aria-controls={`${id}list`}
          aria-activedescendant={
            open && current ? `${id}${current}` : undefined
          }
          autoComplete="off"
          spellCheck={false}
          placeholder={trans.__('Search, for example v5e or 16 chips')}
          value={query ?? value}
          onFocus={event => event.target.select()}
          onClick={show}
          onBlur={close}
          onKeyDown={onKeyDown}
          onChange={event => {
            show();
            setQuery(event.target.value);
          }}
        />
        <caretDownEmptyIcon.react
          tag="span"
          stylesheet="select"
          right="4px"
          top="4px"
        />
      </div>
      {open && (
        <div
          ref={list}
          id={`${id}list`}
          role="listbox"
          className="jp-tpu-Types"
          aria-label={trans.__('Search results')}
          // The field keeps the focus.
          onMouseDown={event => event.preventDefault()}
        >
          {shown.map(([generation, types]) => (
            <div
              key={generation}
              role="group"
              aria-label={trans.__('TPU %1', generation)}
            >
              <div className="jp-tpu-Types-generation" aria-hidden="true">
                {trans.__('TPU %1', generation)}
              </div>
              {types.map(type => {
                const { meaning, name } = type;
                return (
                  <div
                    key={name}
                    id={`${id}${name}`}
                    role="option"
                    aria-selected={name === current}
                    title={`${name} · ${meaning}`}
                    onClick={() => pick(name)}
                  >
                    {name} <b>{price(type)}</b> <small>{meaning}</small>
                  </div>
                );
              })}
            </div>
          ))}
          {names.length === 0 && (
            <p>
              {trans.__('No type has these words in its name or description.')}
            </p>
          )}
        </div>
      )}
    </>
  );
}
