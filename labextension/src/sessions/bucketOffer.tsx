// The buckets of the project, offered where a place is typed.

import React, { useEffect, useState } from 'react';

import { trans } from '../language/translation';
import { TPUModel } from '../model/model';
import { IBucketList, ITPU } from '../rest/api';

/** The id of the list that a field of a place names. */
export const BUCKETS = 'jp-tpu-buckets';

/** The folder in a bucket that is offered. */
const FOLDER = 'sessions';

/** What the field offers, and a line about what was entered: another region costs more. */
export function BucketOffer(props: {
  tpu: ITPU;
  model: TPUModel;
  /** What is entered. */
  place: string;
}) {
  const { model, place, tpu } = props;
  const [listed, setListed] = useState<IBucketList | null>(null);
  useEffect(() => {
    const end = new AbortController();
    model.client.sessions.buckets(tpu.zone, end.signal).then(
      setListed,
      // Without a list, an address is typed.
      () => undefined
    );
    return () => end.abort();
  }, [model, tpu.zone]);
  const name = /^gs:\/\/([^/]+)/.exec(place)?.[1];
  const chosen = listed?.buckets.find(bucket => bucket.name === name);
  const problem = listed?.problem;
  const text =
    chosen?.warning || (problem && `${problem.message} ${problem.hint}`.trim());
  return (
    <>
      <datalist id={BUCKETS}>
        {listed?.buckets.map(bucket => (
          <option
            key={bucket.name}
            value={`gs://${bucket.name}/${FOLDER}`}
            label={
              bucket.near
                ? trans.__('In the region of the TPU: %1', bucket.location)
                : trans.__('In another region: %1', bucket.location)
            }
          />
        ))}
      </datalist>
      {text && <small role="status">{text}</small>}
    </>
  );
}
