// The state of something in a word.

import React from 'react';

import { Tone } from '../language/translation';

/** A state: a word, and a mark whose shape and colour say the tone. */
export function StateLabel(props: {
  tone: Tone;
  children: React.ReactNode;
  title?: string;
}) {
  return (
    <span className={`jp-tpu-State jp-mod-${props.tone}`} title={props.title}>
      <span className={`jp-tpu-Dot jp-mod-${props.tone}`} aria-hidden="true" />
      {props.children}
    </span>
  );
}
