// The home folders that are kept in a bucket, on a TPU’s page.

import { saveIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { ITPUProps, useActions } from '../actions/useActions';
import { sizeLabel } from '../forwarding/portLabels';
import { facts, problemLine } from '../language/text';
import { clock, trans } from '../language/translation';
import { IHome } from '../rest/api';
import { IconButton } from '../ui/elements';
import { Row } from '../ui/rows';

/** Where they are, how far a copy is, and what is left out. */
export function HomeFolders({ tpu }: ITPUProps) {
  const { model } = useActions();
  const { home } = tpu;
  if (!home) {
    return null;
  }
  const { doing, left_out, left_out_count, setting } = home;
  const failed = home.last?.problem ?? null;
  return (
    <ul aria-label={trans.__('Home folders')}>
      <Row
        name={trans.__('Home folders')}
        title={setting.folders.map(folder => `~/${folder}`).join('\n')}
        state={{
          label: doing ? doingLabel(home) : failed ? trans.__('failed') : '',
          tone: failed && !doing ? 'bad' : 'moving'
        }}
        buttons={
          <IconButton
            icon={saveIcon}
            label={trans.__('Save the home folders now')}
            disabled={!home.there || !!doing}
            onClick={() =>
              void model.send(tpu, client => client.homes.save(tpu))
            }
          />
        }
        more={facts(
          home.saved
            ? trans.__('saved %1', clock(home.saved))
            : trans.__('not saved yet'),
          home.saved && sizeLabel(home.size),
          setting.place,
          left_out_count > 0 &&
            trans.__(
              'without %1',
              left_out
                .slice(0, 3)
                .map(({ path }) => path)
                .join(', ') + (left_out_count > 3 ? ' …' : '')
            ),
          problemLine(failed)
        )}
      />
    </ul>
  );
}

/** "saving (12 MB of 40 MB)". */
function doingLabel({ doing, done, total }: IHome): string {
  const what =
    doing === 'save'
      ? trans.__('saving')
      : doing === 'restore'
        ? trans.__('restoring')
        : trans.__('deleting');
  return total
    ? trans.__('%1 (%2 of %3)', what, sizeLabel(done), sizeLabel(total))
    : what;
}
