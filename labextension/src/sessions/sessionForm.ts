// Where variables are saved: the fields of the form for a new TPU, and of dialogs.

import { trans } from '../language/translation';
import { ISessionSetting } from '../rest/api';
import { Failure } from '../rest/failure';
import { FieldList } from '../ui/fields';
import { ITyped } from '../ui/typed';

/** The place of sessions that are copied to the computer that runs Jupyter. */
export const COMPUTER = 'computer';

/** As the server's rule; "" is the disk of the host. */
const PLACE_PATTERN =
  '^$|^computer$|^gs://[a-z0-9][-_.a-z0-9]{1,220}[a-z0-9](/[-_=+@~0-9A-Za-z][-_.=+@~0-9A-Za-z]*)*$';

/** How the address of a bucket begins. */
const BUCKET = 'gs://';

/** Without one, it is still one of a bucket. */
const ADDRESS: ITyped = {
  text: (value: string) => (value === BUCKET ? '' : value),
  value: (text: string) => text.trim() || BUCKET
};

/** An example to type, so not translated. */
const EXAMPLE = 'gs://my-bucket/sessions';

export interface ISessionFields {
  /** Whether variables are saved. */
  sessions: boolean;
  /** "": the disk of the host. */
  place: string;
}

export const NO_SESSIONS: ISessionFields = { sessions: false, place: '' };

/** What was chosen for a TPU, as fields. */
export function sessionFieldsOf(
  setting: ISessionSetting | null
): ISessionFields {
  return { sessions: !!setting, place: setting?.place ?? '' };
}

/** Why a place can't be used; "" if it can. */
export function placeProblem(place: string): string {
  return new RegExp(PLACE_PATTERN).test(place)
    ? ''
    : trans.__('Enter a bucket and a folder, such as %1.', EXAMPLE);
}

/**
 * Throws a `Failure` of the field if a place can't be used.
 *
 * @param needed whether the disk of the host does not last long enough
 */
export function requirePlace({ place }: { place: string }, needed = false) {
  const problem =
    placeProblem(place) ||
    (needed && !place
      ? trans.__(
          'Choose a bucket or this computer: the disk of the TPU is deleted with it, and what is saved there is lost.'
        )
      : '');
  if (problem) {
    throw new Failure(problem, 'INVALID', '', null, 'place');
  }
}

/** What a bucket needs, and what it costs. */
export function bucketHelp(): string {
  return trans.__(
    'The service account of the TPU must be allowed to read and write it. A bucket in another region costs network egress. Google bills what is stored.'
  );
}

/**
 * Where.
 *
 * @param needed whether the disk of the host does not last long enough
 * @param list the id of the list of what is offered
 */
export function placeField<T extends { place: string }>(
  { place }: T,
  needed: boolean,
  list?: string
): FieldList<T> {
  const inBucket = place ? place !== COMPUTER : needed;
  const kind = inBucket ? BUCKET : place;
  return [
    {
      name: 'place',
      label: trans.__('Where'),
      kind: 'select',
      shown: kind,
      quiet: inBucket,
      choices: [
        ...(needed ? [] : ([['', trans.__('The host’s disk')]] as const)),
        [COMPUTER, trans.__('This computer')],
        [BUCKET, trans.__('A bucket')]
      ],
      help:
        kind === COMPUTER
          ? trans.__(
              'They are saved on the host’s disk, and copied over the connection to the computer that runs Jupyter. While the connection is lost, or the server is stopped, the last copy stays.'
            )
          : !inBucket &&
            trans.__(
              'It is kept when the TPU is stopped, and lost when it is deleted.'
            )
    },
    inBucket && {
      name: 'place',
      label: trans.__('Bucket and folder'),
      help: bucketHelp(),
      placeholder: EXAMPLE,
      list,
      typed: ADDRESS,
      required: true,
      problem: place === BUCKET || !place ? '' : placeProblem(place)
    }
  ];
}

/**
 * One line that offers to save variables, and where if that is chosen.
 *
 * @param lost whether the TPU ends with its disk: it is preempted or deleted
 */
export function sessionFieldList(
  fields: ISessionFields,
  lost: boolean
): FieldList<ISessionFields> {
  return [
    {
      name: 'sessions',
      label: trans.__('Save the variables of notebooks'),
      help: lost
        ? trans.__(
            'In a bucket or on this computer, so that you can continue on another TPU when this one is gone'
          )
        : trans.__('So that they are there when you start it again'),
      kind: 'check'
    },
    ...(fields.sessions ? placeField(fields, lost) : [])
  ];
}
