// The dialog that starts a server of a model.

import React from 'react';

import { trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { Price } from '../money/price';
import { startQuestion } from '../money/questionLabels';
import { ITPU } from '../rest/api';
import { ask } from '../ui/formDialog';
import {
  emptyServer,
  rareServerFields,
  serverFields,
  serverRequest
} from './startForm';

/** Asks what to serve, and starts it; whether it is being started. */
export async function startServer(
  tpu: ITPU,
  model: TPUModel
): Promise<boolean> {
  const price = (
    <p>
      {trans.__('With Start, you agree that requests start it at this price:')}{' '}
      <Price cost={tpu.cost} tier={tpu.tier} /> {startQuestion(tpu).text}
    </p>
  );
  const started = await ask({
    title: trans.__('Start a Model Server on %1', tpu.name),
    accept: trans.__('Start'),
    initial: emptyServer(tpu),
    fields: input => serverFields(tpu, input, price),
    rare: input => rareServerFields(tpu, input),
    submit: async input => {
      await model.startServer(tpu, serverRequest(tpu, input));
    }
  });
  return started !== null;
}
