-- The runs a worker works on, as JSON. Workers of older versions had the number of their one run at the end of their name.
ALTER TABLE worker ADD COLUMN runs TEXT NOT NULL DEFAULT '[]';
UPDATE worker SET runs = json_array(substr(name, instr(name, ' on r') + 4))
WHERE retired IS NULL AND name GLOB '* on r[0-9]*' AND substr(name, instr(name, ' on r') + 5) NOT GLOB '*[^0-9]*';
